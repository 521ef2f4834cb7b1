# SPDX-License-Identifier: Apache-2.0
"""Tuning as a transaction: originals are journaled before the first write, undone in reverse."""
