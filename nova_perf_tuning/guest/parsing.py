# SPDX-License-Identifier: Apache-2.0
"""Foreign XML to lxml elements, and domain XML to plain data.

This is the one place that parses XML of others: domain XML carries text of tenants. A document
type, and with it every entity, is refused before the parser sees it; nothing outside the text is
ever opened.
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lxml import etree

from nova_perf_tuning import cpulist, errors
from nova_perf_tuning.guest import domain
from nova_perf_tuning.specs import parsing as spec_parsing
from nova_perf_tuning.specs import vocabulary
from nova_perf_tuning.specs.request import Request

#: Nova's metadata (``<nova:instance>``); extra specs are in it since Nova 32.
NOVA_NAMESPACE: Final = "http://openstack.org/xmlns/libvirt/nova/1.1"
#: Our own metadata (``<perf:request>``); survives Nova's rewriting of its own element.
PERF_NAMESPACE: Final = "http://openstack.org/xmlns/libvirt/nova-perf-tuning/1.0"

#: Nova's largest domains are some 50 KB; of this many bytes the parser makes no more than some 100
#: MB.
MAX_BYTES: Final = 2 << 20
#: KVM_MAX_VCPUS of x86-64 is 4096 at most (CONFIG_KVM_MAX_NR_VCPUS).
MAX_VCPUS: Final = 4096
#: VIRTIO_QUEUE_MAX of QEMU is 1024.
MAX_QUEUES: Final = 1024
MAX_IOTHREADS: Final = 1024
#: Blanks that libvirt passes over in a cpuset.
_BLANKS: Final = re.compile(r"\s*([,-])\s*")
_MAX_AMOUNT: Final = 99_999_999_999  # of KiB, of bytes

_NOVA: Final = f"{{{NOVA_NAMESPACE}}}"
#: What shows that Nova made a domain; older releases wrote 1.0, without extra specs.
INSTANCES: Final = (f"{_NOVA}instance", f"{_NOVA.replace('1.1', '1.0')}instance")
#: Number of an I/O thread.
_IOTHREAD: Final = re.compile("[1-9][0-9]{0,8}").fullmatch
#: Arguments that are passed on to QEMU as they are.
#: Attributes of a disk's ``<driver>`` that are virtio-blk's: libvirt, src/conf/domain_validate.c and
#: src/qemu/qemu_validate.c.
_VIRTIO_DISK: Final = tuple(
    "queues queue_size event_idx ioeventfd iothread iommu ats packed page_per_vq".split()
)
_QEMU: Final = "{http://libvirt.org/schemas/domain/qemu/1.0}"
_PROPERTY: Final = f"{_NOVA}property"
#: Our element and its children in lxml's form of names.
REQUEST: Final = f"{{{PERF_NAMESPACE}}}request"
SPEC: Final = f"{{{PERF_NAMESPACE}}}spec"
_HOSTDEVS: Final = etree.XPath(
    "devices/hostdev[@type='pci']/source/address | devices/interface[@type='hostdev']/source/address"
)
#: One for all documents: making a parser takes as long as reading a domain does. lxml lets one
#: thread after the other use it.
_PARSER: Final = etree.XMLParser(
    encoding="utf-8",
    resolve_entities=False,
    no_network=True,
    load_dtd=False,
    huge_tree=False,
    remove_comments=True,
    remove_pis=True,
)
_Attributes = Mapping[str, str]
_NONE: Final[_Attributes] = {}


class DomainError(errors.PerfTuningError):
    """The text is no domain XML that can be used; the message says what is wrong with it."""


def parse_xml(xml: str | bytes) -> etree._Element:
    """Return the root element of XML that others wrote, without comments and processing instructions.

    :raises DomainError: too large, with a document type, not UTF-8 (libvirt writes nothing else),
        nested more than 256 deep, or not well formed.
    """
    data = xml
    if isinstance(data, str):
        data = data.encode(errors="surrogatepass")
    if len(data) > MAX_BYTES:
        raise DomainError(
            f"domain XML of {len(data)} bytes is larger than the {MAX_BYTES} that are read"
        )
    if b"<!DOCTYPE" in data:
        raise DomainError("domain XML has a DOCTYPE, which is refused: libvirt never writes one")
    try:
        return etree.fromstring(data, _PARSER)
    except etree.XMLSyntaxError as error:
        raise DomainError(
            f"domain XML is not well formed: {vocabulary.shown(str(error), 150)}"
        ) from None


def parse_tree(xml: str | bytes) -> etree._Element:
    """Return the ``<domain>`` element, also out of libvirt's ``<domstatus>``.

    :raises DomainError: as :func:`parse_xml`, or it is no domain.
    """
    root = parse_xml(xml)
    if root.tag == "domstatus":
        inner = root.find("domain")
        if inner is None:
            raise DomainError("libvirt's <domstatus> has no <domain> in it")
        return inner
    if root.tag != "domain":
        raise DomainError(f"not domain XML: the root element is {root.tag[:80]!r}, not 'domain'")
    return root


def parse_domain(xml: str | bytes) -> domain.Domain:
    """Read a domain's XML: a definition, ``virsh dumpxml`` or libvirt's own ``<domstatus>`` file.

    A request in the metadata that cannot be used leaves ``request`` None and says why in
    ``request_error``: the guest exists all the same and the host's plan must see it.

    :raises DomainError: not domain XML, hostile (document type, size) or with an impossible value.
    """
    root = parse_tree(xml)
    name = _text(root, "name")
    if not name or len(name) > 255 or "/" in name or "\n" in name:
        raise DomainError(f"domain <name> is {name[:40]!r}, which libvirt refuses")
    kind = root.get("type")
    if not kind:
        raise DomainError(f"domain {name}: <domain> has no type (kvm, qemu ...)")
    running = running_vcpus(root)
    count = len(running)
    pins: dict[int, str] = {}
    own_cpus = None
    tuning = list(grandchildren(root, "cputune"))
    numatune = list(grandchildren(root, "numatune"))
    every = attribute(root, "vcpu", "cpuset")  # Nova writes it for guests that float over a set
    if every.strip():
        own_cpus = cpuset(every, "vcpu")
        pins = dict.fromkeys(running, own_cpus)
    for vcpu, text in _pins(tuning, "vcpu", MAX_VCPUS).items():
        if vcpu in running:
            pins[vcpu] = text
    emulator_pin = None
    emulator = _of_tag(tuning, "emulatorpin")
    if emulator is not None and emulator.get("cpuset") is not None:
        emulator_pin = cpuset(emulator.get("cpuset", ""), "emulatorpin")
    numad = attribute(root, "vcpu", "placement") == "auto"
    memory = _of_tag(numatune, "memory")
    numad_memory = numad or (memory is not None and memory.get("placement") == "auto")
    hostdevs = _HOSTDEVS(root)
    specs, title = _metadata(grandchildren(root, "metadata"))
    request, request_error = _request(specs)
    status = root.getparent()
    pid = None
    if status is not None and status.get("pid") is not None:
        pid = number(status.get("pid"), 1, domain.MAX_PID, "domstatus pid")
    domain_id = None
    if root.get("id") is not None:
        domain_id = number(root.get("id"), 0, 1 << 31, "domain id")
    return domain.Domain(
        name=name,
        uuid=_text(root, "uuid"),
        type=kind,
        vcpus=count,
        vcpu_pins=pins,
        emulator_pin=emulator_pin,
        iothreads=iothreads(root),
        iothread_pins=_pins(tuning, "iothread", MAX_IOTHREADS),
        memory_nodes=_memory_nodes(numatune),
        interfaces=tuple(map(_interface, grandchildren(root, "devices", "interface"))),
        hostdevs=tuple(pci_address(address.attrib) for address in hostdevs),
        dedicated=_is_dedicated(specs, count, pins),
        request=request,
        domain_id=domain_id,
        title=title,
        request_error=request_error,
        specs=specs,
        pid=pid,
        cpuset=own_cpus,
        numad_cpus=numad,
        numad_memory=numad_memory,
    )


def parse_inventory(xml: str | bytes) -> domain.Inventory:
    """Return the devices, memory and features of a domain; ``xml`` as for :func:`parse_domain`.

    :raises DomainError: it is no domain XML, or a number in it is none.
    """
    root = parse_tree(xml)
    memory = root.findtext("memory", "0").strip()
    if _shown(root, "memory", "unit") not in ("", "KiB"):
        memory = "0"
    names = [
        feature.tag
        for feature in root.iterfind("features/hyperv/*")
        if feature.get("state") == "on"
    ]
    if _shown(root, "features/hyperv", "mode") == "passthrough":
        names = ["passthrough"]
    clocks = root.findall("clock/timer[@name='hypervclock']")
    has_clock = any(timer.get("present") != "no" for timer in clocks)
    hyperv = frozenset(names)
    override = _cpu_override(root)
    windows = _is_windows(root, bool(hyperv) or has_clock)
    lost: frozenset[str] = frozenset()
    if override:
        asked = hyperv - {"vendor_id"}  # which makes nothing faster
        hyperv, has_clock = _of_cpu(override)
        if "passthrough" not in hyperv:
            lost = asked - hyperv
    rx_queue_sizes: list[str] = []
    mtus: list[int | None] = []
    for interface in root.iterfind("devices/interface"):
        rx_queue_sizes.append(_shown(interface, "driver", "rx_queue_size"))
        mtu = number(_shown(interface, "mtu", "size") or "0", 0, _MAX_AMOUNT, "mtu")
        mtus.append(mtu or None)
    return domain.Inventory(
        memory_kib=number(memory, 0, _MAX_AMOUNT, "<memory>"),
        hugepages=root.find("memoryBacking/hugepages") is not None,
        cells=len(root.findall("cpu/numa/cell")),
        memory=tuple(_cell_memory(root)),
        hyperv=hyperv,
        hyperv_clock=has_clock,
        cpu_override=override,
        hyperv_lost=lost,
        free_page_reporting=_shown(root, "devices/memballoon", "model") in domain.VIRTIO_MODELS
        and _shown(root, "devices/memballoon", "freePageReporting") == "on",
        encryption=_encryption(root),
        windows=windows,
        disks=tuple(_disk(disk) for disk in root.iterfind("devices/disk")),
        controllers=tuple(_controller(device) for device in root.iterfind("devices/controller")),
        idle_iothreads=_idle_iothreads(root),
        rx_queue_sizes=tuple(rx_queue_sizes),
        mtus=tuple(mtus),
    )


def _disk(disk: etree._Element) -> domain.Disk:
    number_of_queues = 0
    queues = _shown(disk, "driver", "queues")
    if re.fullmatch("[0-9]{1,5}", queues):
        number_of_queues = int(queues)
    return domain.Disk(
        device=_shown(disk, "target", "dev") or "?",
        kind=disk.get("device", "disk"),
        source=_shown(disk, ".", "type"),
        bus=_shown(disk, "target", "bus"),
        cache=_shown(disk, "driver", "cache"),
        is_shared=disk.find("shareable") is not None,
        queues=number_of_queues,
        of_virtio=tuple(_of_virtio(disk)),
    )


def _of_virtio(disk: etree._Element) -> Iterator[str]:
    """Yield what only virtio-blk takes, whatever the bus of the disk is."""
    model = _shown(disk, ".", "model")
    if model in domain.VIRTIO_MODELS:
        yield f"model='{model}'"
    for name in _VIRTIO_DISK:
        value = _shown(disk, "driver", name)
        if value:
            yield f"{name}='{value}'"


def _controller(device: etree._Element) -> domain.Controller:
    queues = _shown(device, "driver", "queues")
    return domain.Controller(_shown(device, ".", "type"), _shown(device, ".", "model"), queues)


def _idle_iothreads(root: etree._Element) -> tuple[int, ...]:
    """Return the I/O threads that nothing names; those without an id have the first free numbers."""
    count = iothreads(root)
    every: set[int] = set()
    for thread in root.iterfind("iothreadids/iothread"):
        text = thread.get("id", "")
        if _IOTHREAD(text) and len(every) < MAX_IOTHREADS:
            every.add(int(text))
    for candidate in range(1, 2 * MAX_IOTHREADS):
        if len(every) >= count:
            break
        every.add(candidate)
    for device in root.iterfind("devices/*/driver"):
        texts = [device.get("iothread", "")]
        mapping = device.find("iothreads")
        if mapping is not None and not len(mapping):
            return ()  # recorded without its threads
        texts.extend(thread.get("id", "") for thread in device.iterfind("iothreads/iothread"))
        every -= {int(text) for text in texts if _IOTHREAD(text)}
    return tuple(sorted(every))


def _cell_memory(root: etree._Element) -> Iterator[tuple[str, str]]:
    nodes: dict[str, str] = {}
    cells: set[str] = set()
    for node in root.iterfind("numatune/memnode"):
        _note_cell(cells, node)
        nodes[node.get("cellid", "")] = node.get("nodeset", "")
    for index, cell in enumerate(root.iterfind("cpu/numa/cell")):
        if index >= MAX_VCPUS:
            raise DomainError(f"the domain has more than {MAX_VCPUS} <cell>; each needs a vCPU")
        nodeset = nodes.get(cell.get("id", str(index)))
        if nodeset:
            yield cpuset(cell.get("cpus", ""), "numa cell"), cpuset(nodeset, "memnode")


def first(element: etree._Element, tag: str) -> etree._Element | None:
    """Return the first child of that tag; lxml's ``find`` takes twice as long, and Nova waits for
    the driver.
    """
    return next(element.iterchildren(tag), None)


def grandchildren(element: etree._Element, parent: str, *tags: str) -> Iterator[etree._Element]:
    """Yield the children of these tags in children of the tag ``parent``, as they stand in the XML."""
    return (
        child for between in element.iterchildren(parent) for child in between.iterchildren(*tags)
    )


def _of_tag(elements: Iterable[etree._Element], tag: str) -> etree._Element | None:
    """Return the first of the elements that has that tag."""
    for element in elements:
        if element.tag == tag:
            return element
    return None


def attribute(element: etree._Element, tag: str, name: str) -> str:
    """Return an attribute of a child, empty where there is none."""
    child = first(element, tag)
    return "" if child is None else str(child.get(name, ""))


def _shown(element: etree._Element, path: str, name: str) -> str:
    child = element.find(path)
    return "" if child is None else vocabulary.shown(child.get(name, ""), 256)


def _encryption(root: etree._Element) -> str:
    """Return how a guest's memory is encrypted; bit 2 of the policy of SEV asks for SEV-ES (AMD's SEV API, 3)."""
    kind = _shown(root, "launchSecurity", "type")
    policy = root.findtext("launchSecurity/policy", "").strip()[:10]
    if kind == "sev" and re.fullmatch("0x[0-9a-fA-F]+", policy) and int(policy, 16) & 4:
        return "sev-es"
    return kind


def _cpu_override(root: etree._Element) -> str:
    """Return ``-cpu`` of ``<qemu:commandline>``, which libvirt puts behind its own: QEMU takes the last."""
    arguments = [
        vocabulary.shown(argument.get("value", ""), 1024)
        for argument in root.iterfind(f"{_QEMU}commandline/{_QEMU}arg")
    ]
    override = ""
    for option, value in itertools.pairwise(arguments):
        if option in ("-cpu", "--cpu"):
            override = value
    return override


def _of_cpu(text: str) -> tuple[frozenset[str], bool]:
    """Return libvirt's names of the enlightenments in QEMU's ``-cpu``, and whether the clock is among them."""
    flags: set[str] = set()
    for word in text.split(","):
        flag = word.strip().lstrip("+").replace("_", "-")
        flag, _, value = flag.partition("=")
        if flag.startswith("hv-") and value != "off":
            flags.add(flag.removeprefix("hv-"))
    has_clock = "time" in flags
    names = flags - {"time"}
    if "passthrough" in names:
        return frozenset({"passthrough"}), True
    if "vendor-id" in names:
        names = names - {"vendor-id"} | {"vendor_id"}
    return frozenset(names), has_clock


def _is_windows(root: etree._Element, has_hyperv: bool) -> bool:
    """Return what the metadata says of the guest's system, else whether it has Hyper-V's interfaces."""
    for element in root.iterfind("metadata//*"):
        if element.tag == _PROPERTY and element.get("name") == "os_type":
            return (element.text or "").strip().lower() == "windows"
        if element.tag.endswith("}os") and "libosinfo.org" in element.tag:
            return "microsoft.com/win" in element.get("id", "")
    return has_hyperv


def number(text: str, low: int, high: int, what: str) -> int:
    """Return ``text`` as an integer between ``low`` and ``high``.

    :raises DomainError: it is none; ``what`` names it.
    """
    if text.isascii() and text.isdigit() and len(text) < 12:
        value = int(text)
        if low <= value <= high:
            return value
    raise DomainError(f"{what} is {text[:40]!r}; allowed are {low} to {high}")


def _text(element: etree._Element, tag: str) -> str:
    child = first(element, tag)
    return "" if child is None else (child.text or "").strip()


def running_vcpus(domain: etree._Element) -> frozenset[int]:
    """Return the numbers of the vCPUs that a domain has now: by ``<vcpus>``, else the first ``current`` ones.

    Those that could be plugged in later are not among them.

    :raises DomainError: it does not say so by a number.
    """
    most = number(_text(domain, "vcpu") or "1", 1, MAX_VCPUS, "<vcpu>")
    numbers: list[str] = []
    for cpu in grandchildren(domain, "vcpus", "vcpu"):
        if cpu.get("enabled") == "yes":
            numbers.append(cpu.get("id", ""))
    if numbers:
        found = frozenset(
            number(text, 0, most - 1, "<vcpus> vcpu id") for text in numbers[: most + 1]
        )
        if len(found) < len(numbers):
            raise DomainError("<vcpus> names a vCPU twice; libvirt allows one <vcpu> for each")
        return found
    current = attribute(domain, "vcpu", "current") or str(most)
    return frozenset(range(number(current, 1, most, "<vcpu current>")))


def iothreads(domain: etree._Element) -> int:
    """Return how many I/O threads a domain has; raises as :func:`running_vcpus`."""
    return number(_text(domain, "iothreads") or "0", 0, MAX_IOTHREADS, "<iothreads>")


def _pins(tuning: Iterable[etree._Element], kind: str, most: int) -> dict[int, str]:
    """Return the pins of vCPUs or of I/O threads; DomainError: one has two, which libvirt refuses too.

    One that lacks an attribute pins nothing; it is among what :mod:`.shape` finds missing.

    :param tuning: the children of ``<cputune>``.
    """
    pins: dict[int, str] = {}
    tag = f"{kind}pin"
    for pin in tuning:
        if pin.tag != tag:
            continue
        pinned, cpus = pin.get(kind), pin.get("cpuset")
        if pinned is None or cpus is None:
            continue
        index = number(pinned, 0, most, f"{kind}pin {kind}")
        if index in pins:
            raise DomainError(f"{kind} {index} has two <{kind}pin>; libvirt allows one")
        pins[index] = cpuset(cpus, f"{kind}pin")
    return pins


def cpuset(text: str, what: str) -> str:
    """Return libvirt's cpuset (``0-3,^2``: all but 2) as a list of the kernel's form.

    As libvirt (virBitmapParse) it takes blanks around numbers.
    """
    text = text.strip()
    if len(text.split()) > 1:
        text = _BLANKS.sub(r"\1", text)
    try:
        if not text:
            raise cpulist.CpuListError("is empty")
        if ":" in text:  # a stride of the kernel, which libvirt does not have
            raise cpulist.CpuListError("has a stride")
        if "^" not in text and cpulist.is_list(text):
            return text  # and no set is made of what may come from anywhere
        return cpulist.format_bits(cpulist.spec_bits(text))
    except cpulist.CpuListError:
        raise DomainError(f"{what} cpuset is {text[:40]!r}; write it as in 0-3,8") from None


def _memory_nodes(numatune: Iterable[etree._Element]) -> str | None:
    nodes = 0
    cells: set[str] = set()
    for element in numatune:
        nodeset = element.get("nodeset")
        if nodeset is None:
            continue
        nodeset = cpuset(nodeset, "numatune nodeset")
        if element.tag == "memory":
            return nodeset
        _note_cell(cells, element)
        nodes |= cpulist.spec_bits(nodeset)
    return cpulist.format_bits(nodes) if nodes else None


def _note_cell(cells: set[str], memnode: etree._Element) -> None:
    """Add the cell of a ``<memnode>``; DomainError: another has the same, which libvirt refuses too."""
    cell = memnode.get("cellid", "")
    if cell in cells:
        raise DomainError(
            f"numa cell {vocabulary.shown(cell, 20)} has two <memnode>; libvirt allows one"
        )
    if len(cells) >= MAX_VCPUS:
        raise DomainError(
            f"the domain has more than {MAX_VCPUS} <memnode>; a guest has no more NUMA cells"
        )
    cells.add(cell)


def _interface(element: etree._Element) -> domain.Interface:
    parts = {child.tag: child.attrib for child in element}
    driver = parts.get("driver", _NONE)
    queues = 1
    if "queues" in driver:
        queues = number(driver["queues"], 1, MAX_QUEUES, "interface driver queues")
    return domain.Interface(
        element.get("type", ""),
        _device_name(parts.get("target", _NONE).get("dev")),
        parts.get("mac", _NONE).get("address"),
        parts.get("model", _NONE).get("type"),
        driver.get("name"),
        queues,
    )


def _device_name(name: str | None) -> str | None:
    # IFNAMSIZ is 16, with the closing zero.
    if name is not None and (not 0 < len(name) < 16 or "/" in name or name in (".", "..")):
        raise DomainError(
            f"interface target dev is {name[:40]!r}, which is not the name of a network device"
        )
    return name


def pci_address(attrs: _Attributes) -> str:
    """Return the PCI address that an ``<address>`` has as ``0000:82:10.0``; DomainError: it has none."""
    try:
        values = [int(attrs.get(key, "0"), 0) for key in ("domain", "bus", "slot", "function")]
    except ValueError:
        values = [-1]
    if (
        min(values) < 0
        or values[0] > 0xFFFFFFFF
        or values[1] > 0xFF
        or values[2] > 0x1F
        or values[3] > 7
    ):
        raise DomainError(
            "hostdev source address is not a PCI address (domain, bus, slot, function)"
        )
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*values)


def _is_dedicated(specs: domain.MetadataSpecs, vcpus: int, pins: Mapping[int, str]) -> bool:
    policy = specs.extra_specs.get("hw:cpu_policy") or specs.image_properties.get("hw_cpu_policy")
    if policy is not None:
        return policy in ("dedicated", "mixed")
    own = {text for text in pins.values() if text.isdecimal()}
    return len(pins) >= vcpus and len(own) == len(pins)


def _metadata(elements: Iterable[etree._Element]) -> tuple[domain.MetadataSpecs, str | None]:
    """Return what the metadata asks, and the title."""
    extra_specs: dict[str, str] = {}
    properties: dict[str, str] = {}
    ours = None
    title = None
    of_nova = False
    for element in elements:
        of_nova = of_nova or element.tag in INSTANCES
        if element.tag == f"{_NOVA}instance":
            extra_specs = _named(element.iter(f"{_NOVA}extraSpec"))
            properties = _named(element.iter(_PROPERTY))
            title = (element.findtext(f"{_NOVA}name") or "").strip() or None
        elif element.tag == REQUEST:
            ours = _named(element.iter(SPEC))
    return domain.MetadataSpecs(extra_specs, properties, ours, of_nova), title


def _named(elements: Iterable[etree._Element]) -> dict[str, str]:
    return {element.get("name", ""): (element.text or "").strip() for element in elements}


def _request(specs: domain.MetadataSpecs) -> tuple[Request | None, str | None]:
    """Return the request of our own metadata element, else of Nova's; or why it cannot be used."""
    try:
        if specs.expanded is not None:
            return spec_parsing.parse_expanded(specs.expanded), None
        ours = {
            key: text
            for key, text in specs.extra_specs.items()
            if key.startswith(vocabulary.PREFIX)
        }
        properties, _ = spec_parsing.usable_properties(ours, specs.image_properties)
        if ours or any(key.startswith(vocabulary.IMAGE_PREFIX) for key in properties):
            return spec_parsing.parse(ours, properties), None
    except errors.PerfTuningError as error:
        return None, str(error)
    return None, None
