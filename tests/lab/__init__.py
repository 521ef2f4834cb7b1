# SPDX-License-Identifier: Apache-2.0
"""Tests in the emulated NUMA host (tools/lab): what really happens to interrupts, workers and threads."""
