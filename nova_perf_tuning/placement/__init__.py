# SPDX-License-Identifier: Apache-2.0
"""Compute hosts, flavors and results as Nova, Placement and Glance hold them."""
