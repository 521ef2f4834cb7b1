"""Pages, their merging and their migration."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nova_perf_tuning.host.audit import base
from nova_perf_tuning.host.audit.base import Finding, Level, NotApplicableError
from nova_perf_tuning.host.audit.host import Host
from nova_perf_tuning.host.audit.placement import guests_of

_THP = "sys/kernel/mm/transparent_hugepage/enabled"
_KSM = "sys/kernel/mm/ksm"


def _pinned(host: Host) -> list[str]:
    return [guest.name for guest in host.guests if guest.domain.dedicated]


class Hugepages(base.Rule):
    """Guests with CPUs of their own on small pages."""

    id = "guest-small-pages"
    level = Level.INFO
    title = "guests with dedicated CPUs have huge pages"
    reads = "domain XML, /sys/kernel/mm/hugepages"
    why = (
        "Every miss of the TLB walks the guest's and the host's page tables; 2 MiB pages need a 512th of "
        "the entries."
    )
    remedy = (
        "hw:mem_page_size=large in the flavor, and pages reserved on the host: hugepagesz=1G hugepages=N (or 2M) "
        "on the kernel's command line"
    )
    source = "CERN: with NUMA pinning 2 MiB pages took the rest of the loss; NFV guides: 1 GiB"

    def check(self, host: Host) -> Iterator[Finding]:
        guests = [guest for guest in guests_of(host) if guest.domain.dedicated]
        if not guests:
            raise NotApplicableError("no guest with dedicated CPUs")
        small = [guest for guest in guests if not guest.inventory.hugepages]
        if small:
            first = small[0]
            yield self.finding(
                [(first.path, "no <hugepages>")],
                f"{base.plural(len(small), 'guest')} with dedicated CPUs on pages of 4 KiB (or what THP finds): "
                f"{base.named(guest.name for guest in small)}",
            )


class TransparentPages(base.Rule):
    """THP off."""

    id = "thp-never"
    level = Level.WARNING
    title = "transparent huge pages are available to QEMU (madvise or always)"
    reads = "/sys/kernel/mm/transparent_hugepage/enabled"
    why = "QEMU asks for huge pages for its guests' memory (madvise); with never it gets 4 KiB pages."
    remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled"
    source = "Red Hat's virtualization guide: up to 20 %"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        text = host.text(_THP)
        if text is None:
            raise NotApplicableError("no transparent huge pages in this kernel")
        needing = [guest.name for guest in host.guests if not guest.inventory.hugepages]
        if "[never]" not in text:
            return
        if not needing:
            raise NotApplicableError("it is never, and no guest is known that would ask for them")
        yield self.finding(
            [(f"/{_THP}", text)],
            f"{base.plural(len(needing), 'guest')} without huge pages of their own get 4 KiB pages: "
            f"{base.named(needing)}",
            settings=[self.setting("memory", "transparent_hugepage", "madvise", "never")],
        )


class Ksm(base.Rule):
    """KSM at work under pinned guests."""

    id = "ksm-with-pinned-guests"
    level = Level.WARNING
    title = "pages of pinned guests are not merged across nodes"
    reads = "/sys/kernel/mm/ksm/run, merge_across_nodes"
    why = (
        "A merged page lies on one node: the other guests that had it now read it over the interconnect, "
        "and a write "
    )
    why += "costs a fault and a copy."
    remedy = "echo 2 > /sys/kernel/mm/ksm/run  # stops it and takes the merged pages apart"
    source = "RHEL's NUMA guide 9.4; CERN slide 9; TuneD's virtual-host sets 2"
    appliable = True

    def check(self, host: Host) -> Iterator[Finding]:
        run = host.text(f"{_KSM}/run")
        if run is None:
            raise NotApplicableError("no KSM in this kernel")
        pinned = _pinned(host)
        across = host.text(f"{_KSM}/merge_across_nodes")
        spread = len(host.facts.nodes) > 1 and across != "0" and bool(host.guests)
        if run != "1" or not (pinned or spread):
            return
        who = f"guests with dedicated CPUs: {base.named(pinned)}" if pinned else "guests on several nodes"
        evidence = [(f"/{_KSM}/run", run)]
        if across is not None:
            evidence.append((f"/{_KSM}/merge_across_nodes", across))
        yield self.finding(
            evidence,
            f"KSM merges pages under {who}",
            ("systemctl disable --now ksmtuned\n" if "ksmtuned" in host.programs else "") + self.remedy,
            settings=[self.setting("memory", "ksm", "2", run)],
        )


class NumaBalancing(base.Rule):
    """Automatic NUMA balancing under pinned guests."""

    id = "numa-balancing-with-pinned-guests"
    level = Level.WARNING
    title = "automatic NUMA balancing is off where guests are pinned"
    reads = "kernel.numa_balancing"
    why = (
        "It unmaps guests' pages again and again to see who uses them; pinned guests gain nothing from "
        "what it learns."
    )
    remedy = "sysctl -w kernel.numa_balancing=0"
    source = "RHEL's NUMA guide 9.4; TuneD cpu-partitioning"
    appliable = True
    safe = True

    def check(self, host: Host) -> Iterator[Finding]:
        value = host.facts.sysctls.get("kernel.numa_balancing")
        if value is None:
            raise NotApplicableError("no NUMA balancing in this kernel")
        pinned = _pinned(host)
        floating = [guest.name for guest in host.guests if not guest.domain.dedicated]
        if value == "0" or not pinned or len(host.facts.nodes) < 2:
            return
        also = f"; {base.named(floating)} float and may profit from it: compare" if floating else ""
        yield self.finding(
            [("/proc/sys/kernel/numa_balancing", value)],
            f"{base.plural(len(pinned), 'guest')} pinned to {len(host.facts.nodes)} nodes pay for its faults: "
            f"{base.named(pinned)}{also}",
            settings=[self.setting("sysctl", "kernel.numa_balancing", "0", value)],
            level=Level.INFO if len(floating) > len(pinned) else None,
            safe=not floating,
        )


class HugepageReserve(base.Rule):
    """Huge pages for guests on the wrong node."""

    id = "hugepages-uneven"
    level = Level.INFO
    title = "huge pages are reserved on every node that runs guests"
    reads = "/sys/devices/system/node/node*/hugepages"
    why = "A guest is refused by, or built on, the node that has pages left, not the one that has CPUs left."
    remedy = (
        "reserve pages node by node: echo N > "
        "/sys/devices/system/node/nodeM/hugepages/hugepages-2048kB/nr_hugepages"
    )
    source = "Nova's documentation of huge pages"

    def check(self, host: Host) -> Iterator[Finding]:
        pages: dict[int, int] = {}
        for node in host.facts.nodes:
            folder = f"sys/devices/system/node/node{node.id}/hugepages"
            total = 0
            for size in host.names(folder)[:8]:
                match = re.fullmatch(r"hugepages-([0-9]{1,9})kB", size)
                total += int(match[1]) * max(host.number(f"{folder}/{size}/nr_hugepages") or 0, 0) if match else 0
            if node.cpus:
                pages[node.id] = total
        if len(pages) < 2 or not any(pages.values()):
            raise NotApplicableError("no huge pages reserved, or one node")
        empty = [node for node, total in pages.items() if not total]
        if empty:
            yield self.finding(
                [
                    (f"/sys/devices/system/node/node{node}/hugepages", f"{total} KiB")
                    for node, total in pages.items()
                ][:8],
                f"node {base.named(map(str, empty))} has CPUs and no huge page",
            )
