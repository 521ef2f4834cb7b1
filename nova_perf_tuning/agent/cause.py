# SPDX-License-Identifier: Apache-2.0
"""What can cause a pass of the agent: an event, a timer, a signal.

The names are labels of the metric that counts passes.
"""

from typing import Final

#: Events that sources report. Each explains that a value has changed: the kernel or libvirt has
#: set it anew.
LINK: Final = "link"
HARDWARE: Final = "hardware"
GUEST: Final = "guest"
EXCUSES: Final = frozenset((LINK, HARDWARE, GUEST))

#: The agent has started, or was sent a signal: SIGHUP, or one that stops it.
START: Final = "start"
SIGNAL: Final = "signal"
STOP: Final = "stop"

#: A timer found a change: a look after an event, a look by the clock, a full reading.
DRIFT: Final = "drift"
LOOK: Final = "look"
VERIFY: Final = "verify"
