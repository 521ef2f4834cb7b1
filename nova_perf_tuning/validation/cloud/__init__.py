# SPDX-License-Identifier: Apache-2.0
"""The cloud side: pairs of benchmark guests on chosen hosts, launched by Heat."""
