# SPDX-License-Identifier: Apache-2.0
"""Options of nova.conf that have no effect: in a section where Nova does not look, or of no release."""

import difflib
from collections.abc import Iterator

from nova_perf_tuning.host.audit.base import HostRule
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.rules import Finding, Level


class NovaOptions(HostRule):
    """Options of nova.conf are where Nova reads them."""

    id = "nova-option-without-effect"
    why = "oslo.config silently ignores an option in another section, and the default applies."
    remedy = "move the option to its section of nova.conf and restart nova-compute"
    source = "Nova 34: nova/conf/compute.py, nova/conf/libvirt.py"

    def check(self, host: Host) -> Iterator[Finding]:
        host.need_nova_conf()
        for value, key, section in novaconf.elsewhere(host.nova):
            yield self.finding(
                [value],
                f"Nova reads {key} in [{section}] alone: here it has no effect, and the default holds",
                f"move it to the section [{section}] of nova.conf and restart nova-compute",
                subject=key,
                level=None if novaconf.decides_speed(key) else Level.INFO,
            )
        for value, key, section in novaconf.unknown(host.nova):
            why = f"Nova 34 has no option {key} in [{section}], and ignores it"
            remedy = "remove it, unless an older release of Nova runs here that has it"
            close = difflib.get_close_matches(key, novaconf.READ_BY_NOVA[section], 1, 0.85)
            if close:
                why += f"; perhaps you meant {close[0]}"
                remedy = f"{close[0]} in place of {key}, or {remedy}"
            yield self.finding([value], why, remedy, subject=key, level=Level.INFO)
