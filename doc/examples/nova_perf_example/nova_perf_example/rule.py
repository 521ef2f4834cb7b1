# SPDX-License-Identifier: Apache-2.0
"""An audit rule, with the setting that it proposes."""

from collections.abc import Iterator

from nova_perf_tuning import rules
from nova_perf_tuning.host.audit import base, host

#: From this link speed on packets come faster than one by one is worth.
FAST_MBPS = 10_000
PROPOSED = "20000"


class ManyReceivers(base.HostRule):
    """Fast NICs gather packets for a moment."""

    id = "example-many-receivers"
    level = rules.Level.INFO
    why = "Each packet wakes the receiving thread, where a few microseconds of gathering would hand on many at once."
    remedy = f"echo {PROPOSED} > /sys/class/net/NIC/gro_flush_timeout, and measure"
    source = "Linux, Documentation/networking/napi.rst"
    appliable = True

    def check(self, host: host.Host) -> Iterator[rules.Finding]:
        fast = [
            nic
            for nic in host.facts.nics
            if nic.kind == "physical" and (nic.speed_mbps or 0) >= FAST_MBPS
        ]
        found = [(nic, host.text(f"sys/class/net/{nic.name}/gro_flush_timeout")) for nic in fast]
        if not any(value is not None for _nic, value in found):
            raise rules.NotApplicableError("no fast NIC with gro_flush_timeout")
        for nic, value in found:
            if value == "0":
                yield self.finding(
                    [(f"/sys/class/net/{nic.name}/gro_flush_timeout", value)],
                    subject=nic.name,
                    settings=[self.setting("gro_flush_timeout", nic.name, PROPOSED, value)],
                )
