"""Outputs of TPC-C tools that an operator brings: tpcc-mysql and go-tpc.

Neither is in Debian. Their figures are read with ``nova-perf bench parse``; to run them, the operator puts the
program and its loaded database into host and guest. tpmC counts New-Order transactions per minute.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from nova_perf_tuning.bench import base, output, parameter

_NUMBER = output.NUMBER
_TPMC = re.compile(rf"^<TpmC>\s+{_NUMBER} TpmC", re.M)
_RAW = re.compile(
    r"^[ \t]*\[([0-4])\] sc:([0-9]{1,12})[ \t]+lt:([0-9]{1,12})[ \t]+rt:([0-9]{1,12})[ \t]+fl:([0-9]{1,12})", re.M
)
_SECONDS = re.compile(r"^[ \t]*in ([0-9]{1,6}) sec\.", re.M)
#: Counts of transactions that ended, in time or late, in the order of tpcc-mysql's rows.
_COUNTS: Final = ("new_orders", "payments", "order_statuses", "deliveries", "stock_levels")
#: A connection of go-tpc whose transaction the end of the run cut off, which go-tpc counts as an error.
_CUT_OFF = re.compile(r"^\[[0-9: -]{19}\] run worker [0-9]{1,6} stopped due to timeout: ", re.M)


def _name(name: str, default: str, meaning: str) -> parameter.Text:
    return parameter.Text(name, default, meaning, r"[A-Za-z0-9_][A-Za-z0-9_.:-]{0,60}", "a name or an address")


_DATABASE: Final = (
    _name("host", "127.0.0.1", "address of the database server"),
    parameter.Integer("port", "3306", "its port", 1, 65_535),
    _name("database", "tpcc", "name of the loaded database"),
)


class TpccMysql(base.Benchmark):
    """tpcc-mysql's tpcc_start against a database that the operator has loaded.

    The defaults are the published run: two warehouses, three connections, half an hour.
    """

    kind = "tpcc-mysql"
    summary = "TPC-C mix by an operator's tpcc-mysql and its database"
    packages = ()
    programs = ("tpcc_start",)
    primary = ("tpmc", "1/min", "higher")
    parameters = (
        *_DATABASE,
        _name("user", "tpcc", "database user without a password"),
        parameter.Integer("warehouses", "2", "warehouses that were loaded", 1, 100_000),
        parameter.Integer("connections", "3", "connections", 1, 4096),
        parameter.Integer("rampup", "30", "seconds before the measured part", 1, 3600),
        parameter.Integer("seconds", "1800", "length of the measured part", 1, 86_400),
    )
    image_variant = "own"
    brought = "put tpcc_start of tpcc-mysql there, it is not in Debian"
    self_check = "no transaction failed; tpmC follows from the New-Orders and the seconds"

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        argv = ["tpcc_start", "-p", ""]
        for option, name in (
            ("-h", "host"),
            ("-P", "port"),
            ("-d", "database"),
            ("-u", "user"),
            ("-w", "warehouses"),
            ("-c", "connections"),
            ("-r", "rampup"),
            ("-l", "seconds"),
        ):
            argv += [option, str(values[name])]
        limit_s = values.number("rampup") + values.number("seconds") + base.MARGIN_S
        return (base.Step(tuple(argv), "client", limit_s),)

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        printed, seconds = _TPMC.findall(text), _SECONDS.search(text)
        start = text.find("<Raw Results>")
        raw = {
            int(found[1]): [int(one) for one in found.groups()[1:]]
            for found in _RAW.finditer(text[start:].split("<Raw Results2")[0])
        }
        if len(printed) != 1 or seconds is None or start < 0 or set(raw) != set(range(5)):
            raise base.OutputError(f"{self.kind}: the output is cut off or foreign: no <Raw Results> and <TpmC>")
        failed = sum(row[3] for row in raw.values())
        if failed:
            raise base.OutputError(f"{self.kind}: {failed} transactions failed (fl); see the database's log")
        done = [row[0] + row[1] for _, row in sorted(raw.items())]
        rate = done[0] * 60 / max(1, int(seconds[1]))
        if done[0] == 0 or not 0.98 <= float(printed[0]) / rate <= 1.02:
            raise base.OutputError(
                f"{self.kind}: {printed[0]} TpmC contradict {done[0]} New-Orders in {seconds[1]} s"
            )
        return [
            base.Reading(*self.primary, float(printed[0]), primary=True),
            *(
                base.Reading(name, "transactions", "higher", float(count))
                for name, count in zip(_COUNTS, done, strict=True)
            ),
        ]


class GoTpc(base.Benchmark):
    """go-tpc's ``tpcc run --output json`` against a database that the operator has prepared."""

    kind = "go-tpc"
    summary = "TPC-C mix by an operator's go-tpc and its database"
    packages = ()
    programs = ("go-tpc",)
    primary = ("tpmc", "1/min", "higher")
    parameters = (
        *_DATABASE,
        parameter.Integer("warehouses", "2", "warehouses that were prepared", 1, 100_000),
        parameter.Integer("threads", "3", "connections", 1, 4096),
        parameter.Integer("seconds", "60", "length of the run", 1, 86_400),
    )
    image_variant = "own"
    brought = "put go-tpc there, it is not in Debian"
    self_check = (
        "no transaction failed but those that the end of the run cut off; tpmC agrees with New-Orders per minute"
    )

    def steps(self, given: Mapping[str, str], peer: str | None = None) -> Sequence[base.Step]:
        values = self.values(given)
        argv = ["go-tpc", "-H", values.text("host"), "-P", str(values["port"]), "-D", values.text("database")]
        argv += ["-T", str(values["threads"]), "--time", f"{values['seconds']}s", "--output", "json"]
        argv += ["tpcc", "--warehouses", str(values["warehouses"]), "run"]
        return (base.Step(tuple(argv), "client", values.number("seconds") + base.MARGIN_S),)

    def parse(self, text: str) -> list[base.Reading]:
        output.check_length(self.kind, text)
        rows: list[dict[str, Any]] = []
        for line in text.splitlines():
            if line.lstrip().startswith("["):
                rows += self._rows(line)
        totals = [row for row in rows if "tpmC" in row]
        # Every ten seconds it prints the same of those seconds, with the prefix "[Current] ".
        summary = [row for row in rows if row.get("Prefix") == "[Summary] "]
        orders = [row for row in summary if row.get("Operation") == "NEW_ORDER"]
        if len(totals) != 1 or len(orders) != 1:
            raise base.OutputError(
                f"{self.kind}: the output is cut off or foreign: no summary as JSON (--output json)"
            )
        failed = sum(self._number(one, "Count") for one in summary if str(one.get("Operation")).endswith("_ERR"))
        cut_off = len(_CUT_OFF.findall(text))
        if failed > cut_off:
            raise base.OutputError(
                f"{self.kind}: {failed - cut_off:g} transactions failed (*_ERR) before the end of the run"
            )
        rate = self._number(totals[0], "tpmC")
        if rate == 0 or not 0.98 <= self._number(orders[0], "TPM") / rate <= 1.02:
            raise base.OutputError(f"{self.kind}: tpmC {rate:g} contradicts the New-Orders per minute")
        return [
            base.Reading(*self.primary, rate, primary=True),
            base.Reading("tpm_total", "1/min", "higher", self._number(totals[0], "tpmTotal")),
            base.Reading("latency_p95", "ms", "lower", self._number(orders[0], "95th(ms)")),
            base.Reading("new_orders", "transactions", "higher", self._number(orders[0], "Count")),
        ]

    def _rows(self, line: str) -> list[dict[str, Any]]:
        try:
            data = json.loads(line)
        except (ValueError, RecursionError):
            return []
        return [row for row in data if isinstance(row, dict)] if isinstance(data, list) else []

    def _number(self, row: Mapping[str, Any], key: str) -> float:
        text = row.get(key)
        if not isinstance(text, str) or not re.fullmatch(_NUMBER, text):
            raise base.OutputError(f"{self.kind}: '{key}' is no number: {output.printable(text, 40)!r}")
        return output.check_number(self.kind, key, float(text))
