# SPDX-License-Identifier: Apache-2.0
"""Hosts for the plan's tests, made by hand or drawn by hypothesis, and what they are once a plan is applied."""

import dataclasses

from hypothesis import strategies as st

from nova_perf_tuning import cpulist
from nova_perf_tuning.guest import domain
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.plan import layout as layout_module
from nova_perf_tuning.host.plan import steering
from nova_perf_tuning.specs import request

NODE_IDS = (0, 1, 2, 3, 8, 252)


def cpus_of(layout, smt=1, offline=(), capacity=None):
    """Return CPUs; ``layout`` is a list of (node, number of cores), threads of a core lie far apart as on x86."""
    cores = [node for node, count in layout for _ in range(count)]
    result = []
    for thread in range(smt):
        for core, node in enumerate(cores):
            number = thread * len(cores) + core
            siblings = cpulist.format(
                {core + sibling * len(cores) for sibling in range(smt)} - set(offline)
            )
            online = number not in offline
            result.append(
                host_model.Cpu(
                    number, core, 0, node, online, siblings, capacity(core) if capacity else None
                )
            )
    return tuple(result)


def with_l3(cpus, cores, hidden=()):
    """Return CPUs whose L3 caches are shared by so many cores of a node each, in the order of the cores.

    :param hidden: CPUs whose cache the kernel does not show.
    """
    of_node = {}
    for cpu in sorted(cpus, key=lambda cpu: cpu.id):
        leader = min(cpulist.parse(cpu.siblings) | {cpu.id})
        leaders = of_node.setdefault(cpu.node, [])
        if leader not in leaders:
            leaders.append(leader)
    group_of = {}
    for cpu in cpus:
        leader = min(cpulist.parse(cpu.siblings) | {cpu.id})
        group_of[cpu.id] = cpu.node, of_node[cpu.node].index(leader) // cores
    result = []
    for cpu in cpus:
        shared = None
        if cpu.online and cpu.id not in hidden:
            shared = cpulist.format(
                other.id
                for other in cpus
                if other.online and group_of[other.id] == group_of[cpu.id]
            )
        result.append(dataclasses.replace(cpu, l3=shared))
    return tuple(result)


def irq(number, name, device=None, affinity=None, node=None):
    return host_model.Irq(number, name, device, affinity, affinity, node)


def nic(
    name,
    irqs,
    node=0,
    pci="0000:10:00.0",
    speed=10000,
    queues=None,
    kind="physical",
    mask="0",
    driver="ice",
):
    queues = len(irqs) if queues is None else queues
    masks = (mask,) * queues
    xps = masks if queues > 1 else (None,) * queues
    return host_model.Nic(
        name,
        kind,
        driver,
        pci,
        node,
        None,
        None,
        1500,
        speed,
        "up",
        queues,
        queues,
        tuple(irqs),
        masks,
        xps,
    )


def nic_with_irqs(name, count, first=24, node=0, pci="0000:10:00.0", speed=10000, affinity=None):
    """Return a NIC and its interrupts, one for each queue."""
    numbers = range(first, first + count)
    irqs = [
        irq(number, f"{name}-TxRx-{number - first}", pci, affinity, node) for number in numbers
    ]
    return nic(name, numbers, node, pci, speed), irqs


def facts(
    cpus, nics=(), irqs=(), guests=(), distances=None, domains=(), isolated="", nodes=None, **more
):
    numbers = sorted({cpu.node for cpu in cpus if cpu.node is not None} | set(nodes or ()))
    table = distances or {
        node: {other: 10 if node == other else 20 for other in numbers} for node in numbers
    }
    return host_model.HostFacts(
        cpus=tuple(cpus),
        nodes=tuple(
            host_model.Node(
                node,
                cpulist.format(cpu.id for cpu in cpus if cpu.node == node and cpu.online),
                1 << 20,
                table.get(node, {}),
            )
            for node in numbers
        ),
        nics=tuple(nics),
        irqs={irq.number: irq for irq in irqs},
        guests=tuple(guests),
        domains=(*domains, *(guest.domain for guest in guests if guest.domain)),
        online=cpulist.format(cpu.id for cpu in cpus if cpu.online),
        isolated=isolated,
        nohz_full=more.pop("nohz_full", ""),
        arch="x86_64",
        kernel="6.12.0",
        virtualization="none",
        boot_id=None,
        sysctls={},
        **{
            name: tuple(value) if isinstance(value, list) else value
            for name, value in more.items()
        },
    )


def bound(program, pid, cpu):
    """Return a thread that has a CPU for itself."""
    return host_model.ProgramThread(program, pid, pid + cpu, f"pmd-c{cpu:02}/id:9", str(cpu), True)


def guest(
    name,
    pid,
    pins=(),
    workers=0,
    affinity="0-7",
    asks=None,
    emulator_pin=None,
    memory_nodes=None,
    dedicated=None,
    hostdevs=(),
    iothreads=1,
    iothread_pin=None,
    tap=None,
    number=None,
):
    """Return a running guest; ``pins`` are the cpulists of its vCPUs, ``asks`` the keywords of its request."""
    threads = [host_model.Thread(pid, "emulator", None, affinity, 1000 + pid)]
    threads += [
        host_model.Thread(pid + 1 + index, "vhost", index, affinity, 1000 + pid)
        for index in range(workers)
    ]
    threads += [
        host_model.Thread(pid + 40 + index, "iothread", index + 1, affinity, 1000 + pid)
        for index in range(iothreads)
    ]
    threads += [
        host_model.Thread(pid + 50 + index, "vcpu", index, text, 1000 + pid)
        for index, text in enumerate(pins)
    ]
    owned = all(text.isdigit() for text in pins) and len(set(pins)) == len(pins) > 0
    interface = domain.Interface("ethernet", tap, None, "virtio", "vhost", max(workers, 1))
    described = domain.Domain(
        name=name,
        uuid=f"00000000-0000-0000-0000-{pid:012d}",
        type="kvm",
        vcpus=max(len(pins), 1),
        vcpu_pins=dict(enumerate(pins)),
        emulator_pin=emulator_pin,
        iothreads=iothreads,
        iothread_pins={index + 1: iothread_pin for index in range(iothreads)}
        if iothread_pin
        else {},
        memory_nodes=memory_nodes,
        interfaces=(interface,) if workers or tap else (),
        hostdevs=tuple(hostdevs),
        dedicated=owned if dedicated is None else dedicated,
        request=None if asks is None else request.Request(**asks),
        domain_id=number,
    )
    return host_model.GuestProcess(name, pid, tuple(threads), described)


def applied(before, plan):
    """Return the facts of the host once all settings of ``plan`` hold."""
    values = {(setting.kind, setting.target): setting.value for setting in plan.settings}

    def moved(thread):
        return dataclasses.replace(
            thread, affinity=values.get(("thread_affinity", f"tid:{thread.tid}"), thread.affinity)
        )

    def queues(kind, nic, side, masks):
        return tuple(
            values.get((kind, f"{nic.name}/{side}-{index}"), mask)
            for index, mask in enumerate(masks)
        )

    cpus = {target: value for (kind, target), value in values.items() if kind == "host_cpus"}
    threads = before.kernel_threads
    if threads is not None:
        threads = tuple(
            dataclasses.replace(
                each,
                affinity=values.get(("kernel_thread_affinity", f"tid:{each.tid}"), each.affinity),
            )
            for each in threads
        )
    later = {}
    if "new_devices" in cpus:
        later["net.core.rps_default_mask"] = cpus["new_devices"]
    return dataclasses.replace(
        before,
        new_irq_mask=cpus.get("new_irqs", before.new_irq_mask),
        workqueue_mask=cpus.get("workqueue", before.workqueue_mask),
        kernel_threads=threads,
        sysctls={**before.sysctls, **later},
        irqs={
            number: dataclasses.replace(
                irq, affinity=values.get(("irq_affinity", f"irq:{number}"), irq.affinity)
            )
            for number, irq in before.irqs.items()
        },
        guests=tuple(
            dataclasses.replace(guest, threads=tuple(map(moved, guest.threads)))
            for guest in before.guests
        ),
        nics=tuple(
            dataclasses.replace(
                nic,
                xps=queues("xps", nic, "tx", nic.xps),
                rps=queues("rps", nic, "rx", nic.rps),
                napis=tuple(
                    dataclasses.replace(napi, thread=moved(napi.thread)) for napi in nic.napis
                ),
            )
            for nic in before.nics
        ),
    )


@st.composite
def topologies(draw):
    """CPUs, nodes (some without CPUs, ids with holes, or none at all) and distances."""
    numa = draw(st.booleans()) or draw(st.booleans())
    ids = (
        draw(st.lists(st.sampled_from(NODE_IDS), min_size=1, max_size=4, unique=True))
        if numa
        else [None]
    )
    layout = [(node, draw(st.integers(1, 4))) for node in ids]
    smt = draw(st.sampled_from((1, 2, 2, 4)))
    total = smt * sum(count for _node, count in layout)
    offline = draw(st.sets(st.integers(1, max(total - 1, 1)), max_size=total // 3))
    strong = draw(st.sampled_from((None, lambda core: 1024 if core % 2 else 512)))
    cpus = cpus_of(layout, smt, offline, strong)
    cores = draw(st.sampled_from((None, 1, 2, 3)))
    if cores is not None:
        hidden = draw(st.sets(st.integers(0, total - 1), max_size=2))
        cpus = with_l3(cpus, cores, hidden)
    empty = draw(st.sets(st.sampled_from((4, 5)), max_size=2)) if numa else set()
    numbers = sorted({*ids, *empty} - {None})
    distances = {node: {} for node in numbers}
    if draw(st.booleans()):
        for node in numbers:
            for other in numbers:
                far = (
                    10
                    if node == other
                    else distances[other].get(node) or draw(st.integers(11, 40))
                )
                distances[node][other] = far
    return cpus, numbers, distances


_NAMES = (
    ("igb", lambda name, queue: [f"{name}-TxRx-{queue}"]),
    ("virtio_net", lambda name, queue: [f"virtio7-input.{queue}", f"virtio7-output.{queue}"]),
    ("mlx5_core", lambda name, queue: [f"mlx5_comp{queue}@pci:0000:82:00.0"]),
    ("ice", lambda name, queue: [f"ice-{name}-TxRx-{queue}"]),
    ("of-nobody", lambda name, queue: [f"nobody{queue}"]),
)


def napis(draw, cpus, irqs, first):
    """Draw threads for the NAPIs of some interrupts, or of a device that has none; ``first`` is a thread's id."""
    chosen = [irq.number for irq in irqs if draw(st.booleans())] or [None]
    napis = []
    for at, number in enumerate(chosen):
        thread = host_model.Thread(first + at, "napi", 8193 + at, affinities(draw, cpus), 77, True)
        napis.append(host_model.Napi(8193 + at, number, (), (), thread))
    return tuple(napis)


def affinities(draw, cpus):
    """Draw what an affinity reads now: nothing, any CPU, or one."""
    every = cpulist.format(cpu.id for cpu in cpus)
    single = st.sampled_from([str(cpu.id) for cpu in cpus])
    return draw(st.one_of(st.none(), st.just(every), single))


@st.composite
def hosts(draw, speeds=(None, 1000, 25000, 100000)):
    """A whole host with NICs, passed-through devices and guests that ask for this and that."""
    cpus, numbers, distances = draw(topologies())
    places = st.sampled_from([None, *numbers, 77])
    nics, irqs, number = [], [], 24
    for index in range(draw(st.sampled_from((1, 2, 3, 0)))):
        name, pci, node = f"eth{index}", f"0000:{16 + index:02x}:00.0", draw(places)
        driver, naming = draw(st.sampled_from(_NAMES))
        queues = draw(st.integers(1, 9))
        titles = [title for queue in range(queues) for title in naming(name, queue)]
        titles += draw(st.sampled_from(([], [f"{name}-event-0"], [name], ["virtio7-config"])))
        del titles[: draw(st.integers(0, 1))]  # a queue whose vector is not known
        mine = [
            irq(number + at, title, pci, affinities(draw, cpus), node)
            for at, title in enumerate(titles)
        ]
        numbers_of = range(number, number + len(mine))
        nics.append(
            nic(name, numbers_of, node, pci, draw(st.sampled_from(speeds)), queues, driver=driver)
        )
        if draw(st.booleans()):
            nics[-1].napis = napis(draw, cpus, mine, 100 * (index + 1))
        irqs += mine
        number += len(mine)
    guests = []
    free = [cpu.id for cpu in cpus if cpu.online and cpu.id]
    for index in range(draw(st.integers(0, 4))):
        made, free, vectors = draw(_guests(index, cpus, numbers, free, number))
        guests.append(made)
        irqs += vectors
        number += len(vectors)
        if made.domain.interfaces[0].device:
            nics.append(
                nic(
                    made.domain.interfaces[0].device,
                    (),
                    None,
                    None,
                    10000,
                    draw(st.integers(1, 4)),
                    "tap",
                )
            )
    isolated = cpulist.format(draw(st.sets(st.sampled_from([cpu.id for cpu in cpus]), max_size=2)))
    more = draw(_claims([cpu.id for cpu in cpus]))
    if more["slices"]:
        path = st.sampled_from([None, *(group.path for group in more["slices"])])
        guests = [dataclasses.replace(guest, slice=draw(path)) for guest in guests]
    if draw(st.booleans()):
        more |= draw(_work_of_the_kernel(cpus))
        nics.append(nic("br7", (), None, None, None, 1, "bridge", draw(_masks(cpus))))
    return facts(cpus, nics, irqs, guests, distances, isolated=isolated, nodes=numbers, **more)


def _masks(cpus):
    """Draw a mask of some CPUs, as the kernel prints it."""
    numbers = [cpu.id for cpu in cpus]
    digits = (max(numbers) + 4) // 4
    some = st.sets(st.sampled_from(numbers))
    return some.map(lambda chosen: steering.write_mask(sum(1 << cpu for cpu in chosen), digits))


@st.composite
def _work_of_the_kernel(draw, cpus):
    """Masks of what comes later and of unbound work, and kernel threads."""
    lists = st.sets(st.sampled_from([cpu.id for cpu in cpus]), min_size=1).map(cpulist.format)
    threads = [
        host_model.KernelThread(30 + at, f"kcompactd{at}", draw(lists), 20 + at)
        for at in range(draw(st.integers(0, 3)))
    ]
    return {
        "new_irq_mask": draw(_masks(cpus)),
        "workqueue_mask": draw(_masks(cpus)),
        "kernel_threads": threads or None,
    }


@st.composite
def _claims(draw, numbers):
    """PMD threads, slices of systemd and partitions, also such as name CPUs that are offline or others' own."""
    some = st.sets(st.sampled_from(numbers), min_size=1, max_size=max(len(numbers) // 3, 1))
    some_or_none = st.one_of(some, st.just(frozenset()))
    slices = []
    for path in draw(
        st.sets(st.sampled_from(("machine.slice", "machine.slice/machine-rt.slice", "dpdk.slice")))
    ):
        cpus = cpulist.format(draw(some))
        partition = draw(
            st.sampled_from(
                ("member", "root", "isolated", "isolated invalid (Parent is not a partition)")
            )
        )
        slices.append(host_model.Slice(path, cpus, cpus, partition))
    return {
        "programs": [bound("ovs-vswitchd", 900, cpu) for cpu in sorted(draw(some_or_none))],
        "slices": slices,
        "isolated_now": cpulist.format(draw(some_or_none)),
        "nohz_full": cpulist.format(draw(some_or_none)),
    }


@st.composite
def _guests(draw, index, cpus, numbers, free, number):
    own = draw(st.integers(0, min(4, len(free))))
    pins = [str(cpu) for cpu in free[:own]]
    every = cpulist.format(cpu.id for cpu in cpus)
    asks = draw(
        st.one_of(
            st.none(),
            st.fixed_dictionaries(
                {
                    "vhost_placement": st.sampled_from((None, "none", "numa", "spread")),
                    "emulator_placement": st.sampled_from((None, "default", "numa")),
                    "irq_placement": st.sampled_from((None, "none", "numa", "vcpu")),
                }
            ),
        )
    )
    hostdevs, vectors = (), []
    if draw(st.booleans()):
        hostdevs = (f"0000:a{index}:10.0",)
        node = draw(st.sampled_from([None, *numbers]))
        vectors = [
            irq(
                number + at,
                f"vfio-msix[{at}]({hostdevs[0]})",
                hostdevs[0],
                affinities(draw, cpus),
                node,
            )
            for at in range(draw(st.integers(0, 5)))
        ]
    emulator_pin = draw(
        st.one_of(
            st.none(),
            st.just(every),
            st.sets(st.sampled_from([cpu.id for cpu in cpus]), min_size=1),
        )
    )
    made = guest(
        f"guest{index}",
        1000 + 100 * index,
        pins or [every],
        workers=draw(st.integers(0, 5)),
        affinity=affinities(draw, cpus),
        asks=asks,
        emulator_pin=emulator_pin
        if not isinstance(emulator_pin, set)
        else cpulist.format(emulator_pin),
        memory_nodes=draw(
            st.sampled_from(
                [None, *map(str, numbers), *([cpulist.format(numbers)] if numbers else [])]
            )
        ),
        hostdevs=hostdevs,
        tap=f"tap{index}",
        number=index + 1,
    )
    return made, free[own:], vectors


@st.composite
def sets_for(draw, host):
    """Draw CPU sets that do not contradict each other: derived, or given by the operator."""
    cpus = [cpu.id for cpu in host.cpus]
    if draw(st.booleans()):
        return layout_module.CpuSets(power_managed=draw(st.booleans()))
    dedicated = draw(st.sets(st.sampled_from(cpus)))
    rest = sorted(set(cpus) - dedicated)
    shared = draw(st.sets(st.sampled_from(rest))) if rest else set()
    keep = draw(st.sets(st.sampled_from(rest))) if rest and draw(st.booleans()) else set()
    return layout_module.CpuSets(
        dedicated=cpulist.format(dedicated) or None,
        shared=cpulist.format(shared) or None,
        housekeeping=cpulist.format(keep) or None,
        power_managed=draw(st.booleans()),
    )
