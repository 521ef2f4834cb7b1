# SPDX-License-Identifier: Apache-2.0
"""The database of runs: what was measured where, kept for resuming, reports and history."""
