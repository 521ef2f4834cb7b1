# SPDX-License-Identifier: Apache-2.0
"""The daemon that keeps a host as planned: it learns of changes, compares, and writes the difference."""
