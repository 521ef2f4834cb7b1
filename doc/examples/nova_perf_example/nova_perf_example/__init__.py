# SPDX-License-Identifier: Apache-2.0
"""What may be added to nova-perf-tuning from outside: see the contributor guide, "Adding to it"."""
