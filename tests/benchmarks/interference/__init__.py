# SPDX-License-Identifier: Apache-2.0
"""What host work on a guest's CPU costs the guest, and what placement brings back.

``inside`` measures in namespaces of its own, ``placements`` puts the host's work on CPUs, ``tuned`` lets TuneD do it,
``parts.c`` is the guest and the loads, ``figures`` makes the tables of the rounds, ``machine`` compares the machine
before and after.
"""
