# SPDX-License-Identifier: Apache-2.0
"""The host plan: what holds on every topology, and worked examples."""
