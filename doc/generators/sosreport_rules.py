# SPDX-License-Identifier: Apache-2.0
"""Which rules of the audit can judge a sosreport, and what the others lack.

Each rule judges the report of a host on which it fires: tests have one for each rule.
"""

import tempfile
from collections.abc import Mapping

from code_reference import Generated, plain, table

from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.audit.host import Host, Options
from nova_perf_tuning.host.input.facts import reader
from tests.support import audit_cases, audit_hosts, sosreports, sysroots


class SosreportRules(Generated):
    """Rule by rule: is it judged, or which input is lacking?"""

    def lines(self) -> list[str]:
        rows = [[rule.id, plain(outcome(rule.id))] for rule in runner.load()]
        return table(["Rule", "From a sosreport"], sorted(rows), "35 65")


def outcome(name: str) -> str:
    """Return whether a rule finds its fault in a sosreport, or what it says that it lacks."""
    case = audit_cases.CASES[name]
    options = Options(**{**audit_cases.PATH, **case.options})  # type: ignore[arg-type]
    with tempfile.TemporaryDirectory(prefix="nova-perf-sos-", dir=sysroots.workplace()) as place:
        audit_hosts.write(f"{place}/host", case.tree())
        root = reader.open_root(sosreports.write(f"{place}/host", f"{place}/report"))
        host = Host(root, reader.read_root(root), options)
        report = runner.run(host, runner.chosen([name]), strict=True)
    if report.findings:
        return "judged"
    [unjudged] = report.unknown
    return f"lacks its data: {unjudged.text.partition(';')[0]}"


PARTS: Mapping[str, type[Generated]] = {"perf-sosreport": SosreportRules}
