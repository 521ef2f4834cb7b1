# SPDX-License-Identifier: Apache-2.0
"""Records that have /proc/interrupts and lack /proc/irq: what is unknown are the masks alone."""

import contextlib
import io
import re

from nova_perf_tuning.cli import topology
from nova_perf_tuning.host.audit import runner
from nova_perf_tuning.host.input import record
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import planner
from tests.support import audit_cases, directories
from tests.support import audit_hosts as hosts

_CPUS = 16
_COUNT = 50_000
_ETH0 = hosts.ETH0.rpartition("/")[2]
_DEVICE = re.compile(r".*/([0-9a-f:.]+)/msi_irqs/(\d+)")


def _old_number(address: str) -> int:
    """Return the hardware interrupt by which kernels before 6.2 name a device."""
    domain, bus, rest = address.split(":")
    slot, function = rest.split(".")
    device = (int(bus, 16) << 8) | (int(slot, 16) << 3) | int(function)
    return (int(domain, 16) << 27) | (device << 11)


def counts_of(tree: hosts.Tree, *, old: bool = False) -> str:
    """Return /proc/interrupts of a host whose interrupts have all fired where they are served now."""
    devices: dict[str, str] = {}
    for path in tree:
        match = _DEVICE.fullmatch(path)
        if match is not None:
            devices[match[2]] = match[1]
    lines = ["      " + " ".join(f"CPU{cpu}" for cpu in range(_CPUS))]
    for path, text in tree.items():
        parts = path.split("/")
        if path.startswith("proc/irq/") and parts[-1] == "effective_affinity_list" and text:
            number = parts[2]
            row = ["0"] * _CPUS
            row[int(text)] = str(_COUNT)
            names = [
                name.rpartition("/")[2] for name in tree if name.startswith(f"proc/irq/{number}/")
            ]
            handlers = ",".join(
                name for name in names if name not in ("node",) and "affinity" not in name
            )
            address = devices.get(number)
            chip = f"IR-PCI-MSIX-{address}    0-edge" if address else f"IO-APIC  {number}-edge"
            if old and address:
                chip = f"PCI-MSI {_old_number(address)}-edge"
            lines.append(f" {number}: {' '.join(row)}  {chip}      {handlers}")
    return "\n".join(lines) + "\n"


def without_masks(tree: hosts.Tree, *, old: bool = False) -> dict[str, str | None]:
    """Return a host of whose interrupts only the counts are recorded."""
    kept: dict[str, str | None] = {}
    for path, text in tree.items():
        if "/msi_irqs/" not in path and not path.startswith("proc/irq/"):
            kept[path] = text
    kept["proc/interrupts"] = counts_of(tree, old=old)
    return kept


class CountsAloneTest(directories.DirectoryCase):
    def test_rules_find_what_they_found(self) -> None:
        for rule in (
            "nic-irq-on-dedicated",
            "nic-irq-on-cpu0",
            "nic-irq-remote-node",
            "nic-irq-one-cpu",
            "device-irq-on-dedicated",
            "nova-power-management-overlap",
        ):
            case = audit_cases.CASES[rule]
            found: list[list[str]] = []
            whole = case.tree()
            for tree in (whole, without_masks(whole), without_masks(whole, old=True)):
                view = hosts.view(tree, **{**audit_cases.PATH, **case.options})
                report = runner.run(view, runner.chosen([rule]), strict=True)
                found.append([f"{one.level} {one.subject} {one.why}" for one in report.findings])
            with self.subTest(rule):
                self.assertTrue(found[0])
                self.assertEqual([found[0], found[0]], found[1:])

    def test_facts(self) -> None:
        whole, less = hosts.view(hosts.good()).facts, hosts.view(without_masks(hosts.good())).facts
        for before, after in zip(whole.nics, less.nics, strict=True):
            self.assertEqual(before.irqs, after.irqs, before.name)
        self.assertTrue(any(nic.irqs for nic in less.nics))
        for number, irq in less.irqs.items():
            shown = (irq.name, irq.device, irq.node, irq.fired, irq.affinity)
            same = whole.irqs[number]
            self.assertEqual((same.name, same.device, same.node, same.effective, None), shown)
        codes = [note.code for note in less.warnings]
        self.assertIn(NoteCode.IRQS_WITHOUT_MASKS, codes)
        self.assertNotIn(NoteCode.NO_INTERRUPTS, codes)

    def test_names_of_nics_whose_device_the_line_does_not_say(self) -> None:
        head = "     CPU0 CPU1\n"
        for handler in ("eth0-TxRx-0", "i40e-eth0-TxRx-0", f"mlx5_comp0@pci:{_ETH0}"):
            tree = without_masks(hosts.good())
            tree["proc/interrupts"] = f"{head} 77:  0 {_COUNT}  PCI-MSI-edge      {handler}\n"
            nics = {nic.name: nic for nic in hosts.view(tree).facts.nics}
            self.assertEqual((77,), nics["eth0"].irqs, handler)

    def test_topology_says_where_they_fire(self) -> None:
        case = audit_cases.CASES["nic-irq-on-cpu0"]
        texts: list[str] = []
        for tree in (case.tree(), without_masks(case.tree())):
            with contextlib.redirect_stdout(io.StringIO()) as printed:
                topology.show(hosts.view(tree).facts, [])
            texts.append(next(line for line in printed.getvalue().splitlines() if "eth0 " in line))
        self.assertEqual(texts[0], texts[1])

    def test_the_plan_places_the_same_interrupts(self) -> None:
        case = audit_cases.CASES["nic-irq-on-cpu0"]
        plans: list[dict[str, str]] = []
        for tree in (case.tree(), without_masks(case.tree())):
            view = hosts.view(tree)
            settings = planner.plan(view.facts, view.cpu_sets).settings
            plans.append({one.target: one.value for one in settings if one.kind == "irq_affinity"})
        self.assertEqual(plans[0].keys(), plans[1].keys())
        self.assertEqual(2, len(set(plans[1].values())))

    def test_a_record_of_it_says_the_same(self) -> None:
        root = reader.open_root(hosts.grow(self, without_masks(hosts.good())))
        self.assertIn("proc/interrupts", record.collect(root).entries)

    def test_directories_go_first(self) -> None:
        tree = {**hosts.good(), "proc/interrupts": "  CPU0\n 999: 5 IO-APIC 9-edge acpi\n"}
        self.assertNotIn(999, hosts.view(tree).facts.irqs)
