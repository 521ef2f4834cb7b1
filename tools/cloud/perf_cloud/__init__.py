# SPDX-License-Identifier: Apache-2.0
"""OpenStack of released wheels on one machine, in namespaces of its own: doc/source/contributor/cloud.rst."""
