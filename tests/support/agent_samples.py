# SPDX-License-Identifier: Apache-2.0
"""What a running agent says of itself."""

import os
import time

from nova_perf_tuning.agent import state


def agent_state(**changes):
    """Return the state of this process as if it were an agent, with ``changes``."""
    values = dict.fromkeys(("settings", "guests"), 0)
    values |= {"pid": os.getpid(), "pid_start": state.process_start(os.getpid()), "started": 0.0, "updated": 0.0}
    values |= {"updated_monotonic": time.monotonic(), "cpu_s": 0.0, "error": ""}
    values |= {"findings": [], "findings_total": {}, "warnings": []}
    return state.AgentState(**(values | changes))
