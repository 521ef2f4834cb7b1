# SPDX-License-Identifier: Apache-2.0
"""Which work of the host ran on guests' CPUs in a window of time, by counters and by a trace."""
