# SPDX-License-Identifier: Apache-2.0
"""The daemon that keeps a host as planned: it sees changes and writes the difference."""
