# SPDX-License-Identifier: Apache-2.0
"""What is read of a host: facts below a root, Nova's configuration, recordings."""
