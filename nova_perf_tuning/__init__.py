# SPDX-License-Identifier: Apache-2.0
"""Tuning of KVM guests on OpenStack compute hosts, and the proof that it worked."""
