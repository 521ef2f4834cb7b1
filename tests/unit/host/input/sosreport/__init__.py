# SPDX-License-Identifier: Apache-2.0
"""Sosreports as recorded hosts."""
