# SPDX-License-Identifier: Apache-2.0
"""Tuning as a transaction: originals journaled before the first write, verified after, undone in reverse."""
