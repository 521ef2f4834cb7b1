# SPDX-License-Identifier: Apache-2.0
"""The database of runs: what was measured where, kept for resuming, reports and history."""

import logging

logging.getLogger("alembic").setLevel(logging.WARNING)  # it even logs that it is imported
