"""Tuning of KVM guests on OpenStack compute hosts, and the proof that it worked."""
