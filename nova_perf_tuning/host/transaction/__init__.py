"""Tuning as a transaction: originals journaled before the first write, verified after, undone in reverse."""
