"""Pages, their merging and their migration."""

from __future__ import annotations

from collections.abc import Iterator

from nova_perf_tuning.host.audit.base import Rule, sysctl_path
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.facts.root import decimal
from nova_perf_tuning.printing import counted
from nova_perf_tuning.rules import Finding, Level, known, named, need

_THP = "sys/kernel/mm/transparent_hugepage/enabled"
_KSM = "sys/kernel/mm/ksm"
_NODES = "sys/devices/system/node"


def _pinned(host: Host) -> list[str]:
    return [guest.name for guest in host.guests if guest.domain.dedicated]


class Hugepages(Rule):
    """Guests with dedicated CPUs have huge pages."""

    id = "guest-small-pages"
    level = Level.INFO
    why = "Every miss of the TLB walks the page tables of guest and host; 2 MiB pages need a 512th of the entries."
    remedy = "hw:mem_page_size=large in the flavor, and hugepagesz=1G hugepages=N on the kernel's command line"
    source = "CERN: with NUMA pinning 2 MiB pages took the rest of the loss; NFV guides: 1 GiB"

    def check(self, host: Host) -> Iterator[Finding]:
        need(_pinned(host), "no guest with dedicated CPUs")
        small = [guest for guest in host.guests if guest.domain.dedicated and not guest.inventory.hugepages]
        if small:
            yield self.finding(
                [(small[0].path, "no <hugepages>")],
                f"{counted(len(small), 'guest')} with dedicated CPUs on pages of 4 KiB (or what THP finds): "
                f"{named(guest.name for guest in small)}",
            )


class TransparentPages(Rule):
    """Transparent huge pages are available to QEMU (madvise or always)."""

    id = "thp-never"
    why = "QEMU asks for huge pages for its guests' memory (madvise); with never it gets 4 KiB pages."
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    source = "Red Hat's virtualization guide: up to 20 %"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        text = known(host.text(_THP), "no transparent huge pages in this kernel")
        if "[never]" not in text:
            return
        needing = [guest.name for guest in host.guests if not guest.inventory.hugepages]
        need(needing, "it is never, and no guest is known that would ask for them")
        yield self.finding(
            [(f"/{_THP}", text)],
            f"{counted(len(needing), 'guest')} without huge pages of their own get 4 KiB pages: {named(needing)}",
            settings=[self.setting("memory", "transparent_hugepage", "madvise", "never")],
        )


class Ksm(Rule):
    """Pages of pinned guests are not merged across nodes."""

    id = "ksm-with-pinned-guests"
    why = "A merged page lies on one node: other guests read it from afar, and a write costs a fault and a copy."
    remedy = "echo 2 > /sys/kernel/mm/ksm/run  # stops it and takes the merged pages apart"
    source = "RHEL's NUMA guide 9.4; CERN slide 9; TuneD's virtual-host sets 2"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        run = known(host.text(f"{_KSM}/run"), "no KSM in this kernel")
        pinned = _pinned(host)
        across = host.text(f"{_KSM}/merge_across_nodes")
        spread = len(host.facts.nodes) > 1 and across != "0" and bool(host.guests)
        if run == "1" and (pinned or spread):
            files = {"run": run, "merge_across_nodes": across}
            who = f"guests with dedicated CPUs: {named(pinned)}" if pinned else "guests on several nodes"
            yield self.finding(
                [(f"/{_KSM}/{name}", value) for name, value in files.items() if value is not None],
                f"KSM merges pages under {who}",
                ("systemctl disable --now ksmtuned\n" if "ksmtuned" in host.programs else "") + self.remedy,
                settings=[self.setting("memory", "ksm", "2", run)],
            )


class NumaBalancing(Rule):
    """Automatic NUMA balancing is off where guests are pinned."""

    id = "numa-balancing-with-pinned-guests"
    why = "It unmaps pages again and again to see who uses them; pinned guests gain nothing from what it learns."
    remedy = "sysctl -w kernel.numa_balancing=0"
    source = "RHEL's NUMA guide 9.4; TuneD cpu-partitioning"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        key = "kernel.numa_balancing"
        value = known(host.facts.sysctls.get(key), "no NUMA balancing in this kernel")
        pinned = _pinned(host)
        floating = [guest.name for guest in host.guests if not guest.domain.dedicated]
        if value != "0" and pinned and len(host.facts.nodes) > 1:
            also = f"; {named(floating)} float and may profit from it: compare" if floating else ""
            yield self.finding(
                [(sysctl_path(key), value)],
                f"{counted(len(pinned), 'guest')} pinned to {len(host.facts.nodes)} nodes pay for its faults: "
                f"{named(pinned)}{also}",
                settings=[self.setting("sysctl", key, "0", value)],
                level=Level.INFO if len(floating) > len(pinned) else None,
                safe=not floating,
            )


class HugepageReserve(Rule):
    """Huge pages are reserved on every node that runs guests."""

    id = "hugepages-uneven"
    level = Level.INFO
    why = "A guest is refused by, or built on, the node that has pages left, not the one that has CPUs left."
    remedy = "reserve pages on each node: /sys/devices/system/node/nodeM/hugepages/hugepages-2048kB/nr_hugepages"
    source = "Nova's documentation of huge pages"

    def check(self, host: Host) -> Iterator[Finding]:
        pages = {node.id: self._reserved_kib(host, node.id) for node in host.facts.nodes if node.cpus}
        need(len(pages) > 1 and any(pages.values()), "no huge pages reserved, or one node")
        empty = [node for node, total in pages.items() if not total]
        if empty:
            yield self.finding(
                [(f"/{_NODES}/node{node}/hugepages", f"{total} KiB") for node, total in pages.items()][:8],
                f"node {named(map(str, empty))} has CPUs and no huge page",
            )

    @staticmethod
    def _reserved_kib(host: Host, node: int) -> int:
        total = 0
        for name in host.names(f"{_NODES}/node{node}/hugepages"):
            size = decimal(name.removeprefix("hugepages-").removesuffix("kB")) or 0
            total += size * max(host.number(f"{_NODES}/node{node}/hugepages/{name}/nr_hugepages") or 0, 0)
        return total
