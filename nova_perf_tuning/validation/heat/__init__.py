# SPDX-License-Identifier: Apache-2.0
"""Pairs of benchmark guests on chosen hosts of a cloud, launched by Heat."""
