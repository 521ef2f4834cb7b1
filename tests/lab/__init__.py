"""Tests in the emulated NUMA host (tools/lab): what really happens to interrupts, workers and threads."""
