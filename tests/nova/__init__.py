# SPDX-License-Identifier: Apache-2.0
"""The driver in real Nova code: run by tools/nova_tests.sh where Nova is installed, not with the unit tests."""

import gc
import logging
import re

# The first import of Nova in the process decides whether eventlet is in it.
import nova.tests.functional  # noqa: F401

# Each test builds Nova's API anew: 1400 patterns of routes and schemas, of which re keeps 512.
re._MAXCACHE = 100_000
# Nova's modules are many objects that stay; the collector need not look through them.
gc.freeze()
gc.set_threshold(100_000, 20, 100)
# Nova's fixture formats every line of DEBUG, and keeps none: thousands a test. Ours are still formatted.
for _name in (
    "nova",
    "oslo_concurrency",
    "oslo_messaging",
    "oslo_policy",
    "oslo_service",
    "placement",
):
    logging.getLogger(_name).setLevel(logging.INFO)
