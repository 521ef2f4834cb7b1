# SPDX-License-Identifier: Apache-2.0
"""What Open vSwitch is configured to do: masks of its threads, and queues of its ports.

Out of the outputs of ovs-vsctl(8) in a record or sosreport, else out of the database's file, whose
records are changes to rows (ovsdb(5)): ``OVSDB JSON LENGTH HASH``, then an object in one line. A
record with ``_is_diff`` has the difference of each column that changed: of a map, keys that are new,
that have another value, and with their old value those that are gone.
"""

import dataclasses
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from nova_perf_tuning import bounded_json, cpulist
from nova_perf_tuning.host.input.facts.claims import OVS
from nova_perf_tuning.host.input.facts.root import Root, decimal
from nova_perf_tuning.host.model import host_model

_LIMIT: Final = 32 << 20
_REPORT: Final = "sos_commands/openvswitch"
#: Of a recorded host: the outputs of ``ovs-vsctl get Open_vSwitch . other_config`` and ``ovs-vsctl list
#: Interface``.
_RECORD: Final = "nova-perf/openvswitch"
_SWITCH: Final = (
    (_RECORD, "other_config"),
    (_REPORT, "ovs-vsctl_-t_5_get_Open_vSwitch_._other_config"),
    (_REPORT, "ovs-vsctl_-t_5_list_Open_vSwitch"),
)
_PORTS: Final = ((_RECORD, "interfaces"), (_REPORT, "ovs-vsctl_-t_5_list_interface"))
_DATABASES: Final = ("etc/openvswitch", "var/lib/openvswitch")
_FILE: Final = "conf.db"
#: A key and its value in a map as ovs-vsctl prints it: quoted, unless it is a plain word.
_PAIR: Final = re.compile(r'"?([\w.-]+)"?="?((?<=")[^"]*|[^",{} ]+)')
_MASK: Final = re.compile(r"(?:0[xX])?([0-9a-fA-F]{1,512})")
_AFFINITY: Final = re.compile(r"\s*(\d{1,5}):(\d{1,6})\s*")
_COLUMNS: Final = ("name", "options", "other_config")
#: Options of the switch that a recorded host keeps, with values that are words with commas.
_RECORDED: Final = ("dpdk-init", "dpdk-lcore-mask", "dpdk-socket-mem", "pmd-cpu-mask")

#: Row -> column -> text or map.
_Table = dict[str, dict[str, Any]]


@dataclasses.dataclass(frozen=True, slots=True)
class SwitchPort:
    """A port of Open vSwitch with queues of its own, or queues that are bound to CPUs.

    :ivar queues: ``options:n_rxq``; None: not set.
    :ivar affinity: ``other_config:pmd-rxq-affinity``: receive queue -> CPU; empty: not set.
    """

    name: str
    queues: int | None
    affinity: Mapping[int, int]


@dataclasses.dataclass(frozen=True, slots=True)
class SwitchConfig:
    """What is configured.

    :ivar options: ``other_config`` of the switch; :ivar source: where it was read.
    """

    options: Mapping[str, str]
    ports: tuple[SwitchPort, ...]
    source: str

    @property
    def has_dpdk(self) -> bool:
        """Whether it polls with DPDK; ``try``: it runs without where DPDK does not start."""
        return self.options.get("dpdk-init", "").lower() in ("true", "try")

    def mask(self, key: str) -> frozenset[int]:
        """Return the CPUs of a mask, hexadecimal with or without 0x; empty: it is not set, or none."""
        match = _MASK.fullmatch(self.options.get(key, ""))
        cpus: set[int] = set()
        if match is not None:
            bits = int(match[1], 16)
            cpus.update(cpu for cpu in range(bits.bit_length()) if bits >> cpu & 1)
        return frozenset(cpus)


def read(root: Root) -> SwitchConfig | None:
    """Return the configuration of Open vSwitch; None: there is none in this record."""
    for directory, name in _SWITCH:
        text = _text(root, directory, name)
        if "{" in text:  # else it is an error of ovs-vsctl
            return SwitchConfig(
                _of_switch(text), tuple(_printed_ports(root)), f"/{directory}/{name}"
            )
    for directory in _DATABASES:
        tables = _tables(_text(root, directory, _FILE))
        for row in tables["Open_vSwitch"].values():
            ports = tuple(_ports(tables["Interface"]))
            return SwitchConfig(row.get("other_config") or {}, ports, f"/{directory}/{_FILE}")
    return None


def recorded(config: SwitchConfig) -> dict[str, bytes]:
    """Return path -> content of the files that a recorded host keeps of a configuration."""
    pairs: list[str] = []
    for key in _RECORDED:
        value = config.options.get(key, "")
        if value.replace(",", "").isalnum():
            pairs.append(f'{key}="{value}"')
    rows: list[str] = []
    for port in config.ports:
        options = "" if port.queues is None else f'n_rxq="{port.queues}"'
        bound = ",".join(f"{queue}:{cpu}" for queue, cpu in port.affinity.items())
        other = f'pmd-rxq-affinity="{bound}"' if bound else ""
        name = port.name.replace('"', "")
        rows.append(f'name: "{name}"\noptions: {{{options}}}\nother_config: {{{other}}}\n')
    return {
        f"{_RECORD}/{_SWITCH[0][1]}": f"{{{', '.join(pairs)}}}\n".encode(),
        f"{_RECORD}/{_PORTS[0][1]}": "\n".join(rows).encode(),
    }


def configured(root: Root) -> tuple[host_model.ProgramThread, ...]:
    """Return a thread for each CPU of ``pmd-cpu-mask``, of a record that does not show the threads."""
    config = read(root)
    if config is None or not config.has_dpdk:
        return ()
    threads: list[host_model.ProgramThread] = []
    said = f"{config.source} other_config"
    name = f"pmd-cpu-mask={config.options.get('pmd-cpu-mask', '')}"
    for cpu in sorted(config.mask("pmd-cpu-mask")):
        if cpu <= cpulist.MAX_CPU:
            threads.append(host_model.ProgramThread(OVS, 0, 0, name, str(cpu), True, said))
    return tuple(threads)


def _text(root: Root, directory: str, name: str) -> str:
    data = root.read(root.directory(directory), name, _LIMIT)
    return (data or b"").decode("utf-8", "replace")


def _of_switch(text: str) -> dict[str, str]:
    """Return ``other_config`` out of the map alone, or out of the row of all columns."""
    for line in text.splitlines():
        column, colon, value = line.partition(":")
        if colon and column.strip() == "other_config":
            return _map(value)
    return _map(text)


def _map(text: str) -> dict[str, str]:
    return {match[1]: match[2] for match in _PAIR.finditer(text)}


def _printed_ports(root: Root) -> Iterator[SwitchPort]:
    """Yield the ports of ``ovs-vsctl list Interface``, whose rows are separated by empty lines."""
    rows: _Table = {}
    for directory, name in _PORTS:
        for block in _text(root, directory, name).split("\n\n"):
            row: dict[str, Any] = {}
            for line in block.splitlines():
                column, _, value = line.partition(":")
                if column.strip() in _COLUMNS[1:]:
                    row[column.strip()] = _map(value)
                elif column.strip() == "name":
                    row["name"] = value.strip().strip('"')
            rows[str(len(rows))] = row
    yield from _ports(rows)


def _ports(table: _Table) -> Iterator[SwitchPort]:
    """Yield the ports that have something of interest."""
    for row in table.values():
        name = row.get("name")
        if not isinstance(name, str) or not name.isprintable():
            continue
        queues = decimal((row.get("options") or {}).get("n_rxq"))
        affinity: dict[int, int] = {}
        for word in (row.get("other_config") or {}).get("pmd-rxq-affinity", "").split(","):
            match = _AFFINITY.fullmatch(word)
            if match is not None:
                affinity[int(match[1])] = int(match[2])
        if queues is not None or affinity:
            yield SwitchPort(name, queues, affinity)


def _tables(text: str) -> dict[str, _Table]:
    """Return the rows of the two tables after all changes; none where the file is of another form."""
    tables: dict[str, _Table] = {"Open_vSwitch": {}, "Interface": {}}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        try:
            record = bounded_json.parse(line)
        except bounded_json.JsonError:
            continue  # cut off while it was copied
        if not isinstance(record, dict):
            continue
        for name, table in tables.items():
            changes = record.get(name)
            if isinstance(changes, dict):
                _change(table, changes, bool(record.get("_is_diff")))
    return tables


def _change(table: _Table, changes: Mapping[str, Any], is_diff: bool) -> None:
    """Apply what one record says of a table."""
    for key, columns in changes.items():
        if not isinstance(columns, dict):
            table.pop(key, None)
            continue
        row = table.setdefault(key, {})
        for column in _COLUMNS:
            value = columns.get(column)
            if column == "name" and isinstance(value, str):
                row[column] = value
            elif isinstance(value, list) and value[:1] == ["map"] and column != "name":
                row[column] = _changed(row.get(column, {}) if is_diff else {}, value[1:])


def _changed(old: Mapping[str, str], pairs: list[Any]) -> dict[str, str]:
    """Return a map with the differences, or all pairs, of one record."""
    new = dict(old)
    for pair in pairs[0] if pairs and isinstance(pairs[0], list) else ():
        match pair:
            case [str() as key, str() as value]:
                if old.get(key) == value:
                    del new[key]
                else:
                    new[key] = value
    return new
