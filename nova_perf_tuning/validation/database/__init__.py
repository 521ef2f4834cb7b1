"""The database of runs: what was measured where, kept for resuming, reports and history."""
