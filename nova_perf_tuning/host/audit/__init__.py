# SPDX-License-Identifier: Apache-2.0
"""Every published recommendation as a rule: evidence, why it matters on this host, remedy, and
undo.
"""
