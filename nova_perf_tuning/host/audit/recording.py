"""What the rules read beyond the facts, for recordings: only what is named here, of texts only some words."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from nova_perf_tuning.guest import inventory
from nova_perf_tuning.host import model, novaconf
from nova_perf_tuning.host.audit import host as host_module
from nova_perf_tuning.host.audit import kernel, machine
from nova_perf_tuning.host.facts import ethtool

if TYPE_CHECKING:
    from nova_perf_tuning.host.facts.recording import Tree

_PLACES: Final = {
    "proc/net": ("softnet_stat",),
    "sys/kernel/mm/ksm": ("run", "merge_across_nodes"),
    "sys/kernel/mm/transparent_hugepage": ("enabled",),
    "sys/module/kvm/parameters": ("halt_poll_ns",),
    "sys/module/vhost_net/parameters": ("experimental_zcopytx",),
    "etc/tuned": ("active_profile",),
}
_STATISTICS: Final = ("rx_packets", "tx_packets", "rx_missed_errors", "rx_fifo_errors", "rx_dropped", "tx_dropped")
_DEVICES: Final = ("kvm", "vhost-net", "tun")
_IRQBALANCE: Final = ("IRQBALANCE_BANNED_CPULIST", "IRQBALANCE_BANNED_CPUS", "IRQBALANCE_ARGS", "OPTIONS")


def add(tree: Tree, host: host_module.Host) -> None:
    """Add what the rules read of ``host`` to a recording."""
    for place, files in _PLACES.items():
        tree.copy(tree.root.folder(place), files)
    _line(tree, "proc/cmdline", kernel.recorded(host.content("proc/cmdline", 65536) or ""))
    _machine(tree, host)
    _processors(tree, host)
    for nic in host.facts.nics:
        _nic(tree, host, nic)
    for path in (*novaconf.NOVA_FILES, *novaconf.NEUTRON_FILES):
        text = host.content(path)
        if text:
            tree.files[path] = novaconf.recorded(text)
    for path in ("etc/default/irqbalance", "etc/sysconfig/irqbalance"):
        _some_lines(tree, host, path, lambda line: line.strip().startswith(_IRQBALANCE))
    links = "etc/systemd/network"
    for name in [name for name in host.names(links) if name.endswith(".link")][:64]:
        _some_lines(tree, host, f"{links}/{name}", lambda line: line.strip().startswith("IRQAffinity"))
    parts = host.names("etc/systemd/system.conf.d")
    for path in ("etc/systemd/system.conf", *(f"etc/systemd/system.conf.d/{name}" for name in parts)):
        _some_lines(tree, host, path, lambda line: line.strip().startswith("CPUAffinity"))
    if host.sees_programs:
        _line(tree, "proc/1/comm", "init")  # says that programs were looked for
    for program, pid in host.programs.items():
        _line(tree, f"proc/{pid}/comm", program)


def _line(tree: Tree, path: str, text: str) -> None:
    if text:
        tree.files[path] = f"{text}\n".encode()


def _some_lines(tree: Tree, host: host_module.Host, path: str, wanted: Callable[[str], bool]) -> None:
    text = host.content(path, 1 << 20)
    if text is not None:
        _line(
            tree, path, "\n".join(line for line in text.splitlines() if line.isprintable() and wanted(line)) or "#"
        )


def _machine(tree: Tree, host: host_module.Host) -> None:
    if host.names("sys/class/misc"):
        tree.folders.add("sys/class/misc/any")  # the folder is there, whatever is in it
    for name in _DEVICES:
        if host.has(f"sys/class/misc/{name}"):
            tree.folders.add(f"sys/class/misc/{name}")
        elif host.has(f"dev/{name}"):
            tree.files[f"dev/{name}"] = b""
    folder = "sys/devices/system/cpu/vulnerabilities"
    tree.copy(tree.root.folder(folder), host.names(folder)[:64])
    for what, (path, version) in machine.versions(host).items():
        tag = "selfvers" if what == "libvirt" else "version"
        number = version[0] * 1000000 + version[1] * 1000 + version[2]
        _line(
            tree,
            f"{path.lstrip('/').rpartition('/')[0]}/{what}.xml",
            f"<qemuCaps><{tag}>{number}</{tag}></qemuCaps>",
        )
    if host.boot_file is not None and host.is_xen:
        path, text = host.boot_file
        lines = [line for line in text.splitlines() if "xen" in line.lower()]
        words = {word for line in lines for word in kernel.recorded(line).split() if word.startswith("dom0_")}
        _line(tree, path.lstrip("/"), " ".join(["kernel /xen.gz", *sorted(words)]))
    if host.kernel_log is not None:
        telling = machine.telling_lines(host.kernel_log[1])
        _line(tree, "var/log/dmesg", "\n".join(line for line in telling if line.isprintable()))


def _processors(tree: Tree, host: host_module.Host) -> None:
    policies = "sys/devices/system/cpu/cpufreq"
    for name in host.names(policies):
        if name.startswith("policy"):
            tree.copy(tree.root.folder(f"{policies}/{name}"), ("scaling_governor", "scaling_available_governors"))
    for cpu in sorted(host.online):
        folder = f"sys/devices/system/cpu/cpu{cpu}/cpuidle"
        for name in host.names(folder)[:32]:
            if name.startswith("state"):
                tree.copy(tree.root.folder(f"{folder}/{name}"), ("latency", "disable"))


def _nic(tree: Tree, host: host_module.Host, nic: model.Nic) -> None:
    folder = tree.root.canonical(tree.root.folder("sys/class/net"), nic.name)
    if folder is not None:
        tree.copy(tree.root.child(folder, "statistics"), _STATISTICS)
    if nic.kind in ("physical", "vf"):
        link = host.ethtool(nic)
        if link is not None:
            tree.files[f"{ethtool.FOLDER}/{nic.name}.json"] = ethtool.as_json(link)


def inventories(guests: Iterable[host_module.Guest]) -> dict[str, inventory.Inventory]:
    """Return the devices of guests by their names."""
    return {guest.name: guest.inventory for guest in guests}
