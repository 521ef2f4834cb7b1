# SPDX-License-Identifier: Apache-2.0
"""Runs inside the emulated host and reads what holds there; code of the project is in ``tally`` alone.

Started by :mod:`tests.lab.rig` as one process with one connection: a line of JSON is ``[function, arguments]``,
the answer a line of JSON ``[result, error]``.
"""

import glob
import json
import os
import re
import shlex
import subprocess
import sys
import time
import traceback


def run(command, seconds=1800):
    """Run a shell command; return code and output with errors.

    The limit is above those of the agent's unit: this host is slow on a machine with other work.
    """
    done = subprocess.run(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=seconds, text=True, errors="replace",
    )  # fmt: skip
    return [done.returncode, done.stdout]


def must(command):
    """Run a shell command that must not fail; return its output."""
    code, out = run(command)
    if code:
        raise RuntimeError(f"{command}: exit code {code}: {out[-2000:]}")
    return out


#: What works in the background until :func:`end`.
_started = []


def start(argv):
    """Start a program that says "ready" and works until its standard input ends."""
    process = subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    _started.append(process)
    if process.stdout.readline() != "ready\n":
        raise RuntimeError(f"{argv}: it ended at once, exit code {process.wait()}")


def intrude(kind, cpu, other):
    """Start work that reaches a CPU, see :mod:`tests.support.intruders`."""
    start([sys.executable, "-m", "tests.support.intruders", kind, str(cpu), str(other)])


def repeat(command):
    """Start a shell command that is run again and again."""
    loop = shlex.quote(f"while :; do {command}; done")
    # Its group is ended: what runs in the loop may have no end.
    script = f"setsid sh -c {loop} >/dev/null 2>&1 & echo ready; cat; kill -- -$!"
    start(["sh", "-c", script])


def end():
    """End all that was started."""
    while _started:
        _started.pop().communicate(timeout=300)


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def timed(command):
    """Run a shell command, which must succeed, and return how many seconds it took."""
    begun = time.monotonic()
    must(command)
    return time.monotonic() - begun


def get(path):
    with open(path) as file:
        return file.read().strip()


def _cpus(text):
    found = set()
    for part in text.split(","):
        first, _, last = part.partition("-")
        found |= set(range(int(first), int(last or first) + 1))
    return sorted(found)


def _irq(number):
    directory = f"/proc/irq/{number}"
    names = [entry.name for entry in os.scandir(directory) if entry.is_dir()]
    return {
        "irq": number,
        "name": names[0] if names else None,
        "cpus": _cpus(get(f"{directory}/smp_affinity_list")),
        "effective": get(f"{directory}/effective_affinity_list"),
    }


def device_irqs(address):
    """Return the message-signalled interrupts of a PCI device in the order of their numbers."""
    found = []
    try:
        numbers = sorted(map(int, os.listdir(f"/sys/bus/pci/devices/{address}/msi_irqs")))
    except FileNotFoundError:  # there from when a driver asks for the first one
        return found
    for number in numbers:
        try:
            found.append(_irq(number))
        except OSError:
            pass
    return found


def nic_irqs(nic):
    path = os.path.realpath(f"/sys/class/net/{nic}/device")
    while not os.path.isdir(f"{path}/msi_irqs"):
        path = os.path.dirname(path)
        if path == "/":  # its driver is not bound
            return []
    return [irq for irq in device_irqs(os.path.basename(path)) if irq["name"]]


def xps(nic):
    """Return each transmit queue's mask as a number."""
    files = sorted(glob.glob(f"/sys/class/net/{nic}/queues/tx-*/xps_cpus"))
    return [int(get(path).replace(",", ""), 16) for path in files]


def rps(nic):
    """Return each receive queue's mask as a number."""
    files = sorted(glob.glob(f"/sys/class/net/{nic}/queues/rx-*/rps_cpus"))
    return [int(get(path).replace(",", ""), 16) for path in files]


def originals():
    """Return every affinity and steering mask of the host: interrupts by PCI address and name, not by number."""
    owners = {}
    for path in glob.glob("/sys/bus/pci/devices/*/msi_irqs/*"):
        owners[int(os.path.basename(path))] = path.split("/")[5]
    irqs = {}
    for number in sorted(int(name) for name in os.listdir("/proc/irq") if name.isdigit()):
        try:
            one = _irq(number)
        except OSError:
            continue
        if one["name"]:
            irqs.setdefault(f"{owners.get(number, 'none')} {one['name']}", []).append(one["cpus"])
    masks = {}
    for path in glob.glob("/sys/class/net/*/queues/*/[rx]ps_cpus"):
        try:
            masks[path] = get(path)
        except OSError:  # a NIC of one queue has no XPS
            pass
    return {"irqs": irqs, "masks": masks, "new": get("/proc/irq/default_smp_affinity")}


#: What notes writes, see :func:`watch`, and the path of each of its numbers.
_watch = None
_watched = {}


def watch():
    """Note from now on every write to a mask of an interrupt or queue that is there; return how many there are."""
    global _watch
    import inotify_simple

    if _watch is None:
        _watch = inotify_simple.INotify()
    for pattern in ("/proc/irq/*/smp_affinity*", "/sys/class/net/*/queues/*/[rx]ps_cpus"):
        for path in glob.glob(pattern):
            try:
                _watched[_watch.add_watch(path, inotify_simple.flags.MODIFY)] = path
            except OSError:  # of a guest that is ending
                pass
    default = "/proc/irq/default_smp_affinity"
    _watched[_watch.add_watch(default, inotify_simple.flags.MODIFY)] = default
    return len(_watched)


def writes():
    """Return the paths that were written since :func:`watch` or since this was asked last."""
    events = _watch.read(timeout=0)
    modified = {_watched[event.wd] for event in events if event.mask & 2}  # IN_MODIFY
    return sorted(modified)


def counts(numbers):
    """Return how often each interrupt has fired, CPU by CPU."""
    found = {}
    with open("/proc/interrupts") as file:
        width = len(file.readline().split())
        for line in file:
            fields = line.split()
            number = fields[0].rstrip(":")
            if number.isdigit() and int(number) in numbers:
                found[number] = list(map(int, fields[1 : width + 1]))
    return found


def threads(guest):
    """Return the guest's threads by name: id, CPUs, time run in ns, and whether it is QEMU's own."""
    pid = int(get(f"/run/libvirt/qemu/{guest}.pid"))
    found = []
    own = sorted(map(int, os.listdir(f"/proc/{pid}/task")))
    others = []
    for comm in glob.glob("/proc/[0-9]*/comm"):
        try:
            if get(comm) == f"vhost-{pid}" and int(comm.split("/")[2]) not in own:
                others.append(int(comm.split("/")[2]))
        except OSError:
            pass
    for tid in own + sorted(others):
        try:
            name = get(f"/proc/{tid}/comm")
            found.append(
                {
                    "tid": tid,
                    "name": "emulator" if tid == pid else re.sub(r"^vhost-\d+$", "vhost", name),
                    "cpus": sorted(os.sched_getaffinity(tid)),
                    "ran": int(get(f"/proc/{tid}/schedstat").split()[0]),
                    "own": tid in own,
                }
            )
        except OSError:
            pass
    return found


def loosen(guest):
    """Let the threads of a guest run on all CPUs, but for those that execute its vCPUs."""
    for thread in threads(guest):
        if thread["name"].startswith(("vhost", "emulator", "IO iothread")):
            os.sched_setaffinity(thread["tid"], range(os.cpu_count()))


def disturb(command, guest):
    """Run a shell command, which must succeed, and :func:`loosen` a guest."""
    must(command)
    loosen(guest)


def _nic_faults(nic, cpus):
    """Each interrupt of a NIC is to be on one of the CPUs, its queues evenly."""
    irqs = nic_irqs(nic)
    found = {irq["name"]: irq["cpus"] for irq in irqs}
    queues = {cpu: set() for cpu in cpus}
    for name, there in found.items():
        if len(there) != 1 or there[0] not in queues:
            return bool(irqs), f"{nic}: {found}"
        queue = re.search(r"\d+$", name)
        if queue and name != nic and "config" not in name:
            queues[there[0]].add(queue.group())
    sizes = [len(queue) for queue in queues.values()]
    return bool(irqs), f"{nic}: {found}" if not irqs or max(sizes) - min(sizes) > 1 else ""


def _serving(nic, queues):
    """Return which queues each CPU serves, by the NIC's interrupts; nothing while one of them has more CPUs.

    :param queues: a pattern of the names of their interrupts; with few queues igb has one for each direction.
    """
    found = {}
    for irq in nic_irqs(nic):
        queue = re.search(rf"(?:{queues})(\d+)$", irq["name"])
        if queue:
            if len(irq["cpus"]) != 1:
                return {}
            found.setdefault(irq["cpus"][0], set()).add(int(queue.group(1)))
    return found


def _xps_faults(nic):
    """A CPU that serves queues is to send by all of those, each other CPU by one."""
    masks, serving = xps(nic), _serving(nic, r"output\.|TxRx-|tx-")
    sends = [
        {queue for queue, mask in enumerate(masks) if mask >> cpu & 1}
        for cpu in range(os.cpu_count())
    ]
    right = serving and all(one == serving.get(cpu, one) and one for cpu, one in enumerate(sends))
    single = all(len(one) == 1 for cpu, one in enumerate(sends) if cpu not in serving)
    return bool(masks), "" if right and single else f"{nic} sends by {sends}, served by {serving}"


def _rps_faults(nic, cpus):
    """CPUs of ``cpus`` that have none of the NIC's queues are to share the receiving of its queues."""
    masks = rps(nic)
    helpers = sorted(set(cpus) - set(_serving(nic, r"put\.|TxRx-|[rt]x-")))
    shared = [[cpu for cpu in range(os.cpu_count()) if mask >> cpu & 1] for mask in masks]
    right = helpers and sorted(sum(shared, [])) == helpers
    sizes = [len(worker) for worker in shared]
    even = max(sizes, default=0) - min(sizes, default=0) <= 1
    return bool(
        masks
    ), "" if right and even else f"{nic}: {helpers} are to share the receiving of {shared}"


def _guest_faults(guest, cpus):
    """The guest's emulator, I/O threads and vhost workers are to be allowed on exactly these CPUs."""
    found = {name: [] for name in ("emulator", "IO iothread", "vhost")}
    for thread in threads(guest):
        for name, lists in found.items():
            if thread["name"].startswith(name):
                lists.append(thread["cpus"])
    wrong = any(have != cpus for lists in found.values() for have in lists)
    return all(found.values()), f"{guest}: {found}" if wrong or not all(found.values()) else ""


def _worker_faults(guest, cpus):
    """Each vhost worker is to have one of the CPUs, all CPUs evenly."""
    found = [thread["cpus"] for thread in threads(guest) if thread["name"] == "vhost"]
    single = [entry[0] for entry in found if len(entry) == 1]
    sizes = [single.count(cpu) for cpu in cpus]
    right = found and len(single) == len(found) == sum(sizes) and max(sizes) - min(sizes) <= 1
    return bool(found), "" if right else f"{guest}'s workers: {found}"


def _vector_faults(address, cpus, count):
    """So many interrupts (0: any number) of a passed-through device are to be there, each on one of the CPUs."""
    found = [irq["cpus"] for irq in device_irqs(address) if (irq["name"] or "").startswith("vfio")]
    there = len(found) == count if count else bool(found)
    right = there and all(len(entry) == 1 and entry[0] in cpus for entry in found)
    return there, "" if right else f"{address}: {found}"


_FAULTS = {
    "nic": _nic_faults,
    "xps": _xps_faults,
    "rps": _rps_faults,
    "guest": _guest_faults,
    "workers": _worker_faults,
    "vectors": _vector_faults,
}


def faults(wanted):
    """Return whether everything is there that ``wanted`` names, and what of it is not as wanted.

    :param wanted: lists such as ``["nic", "nic0", [0, 1]]``: a key of _FAULTS and its arguments.
    """
    found = []
    for kind, *arguments in wanted:
        try:
            found.append(_FAULTS[kind](*arguments))
        except OSError as error:
            found.append((False, str(error)))
    return all(there for there, _fault in found), [fault for _there, fault in found if fault]


def settle(event, wanted, appears=False, gone=False, hold=1.0, limit=300.0):
    """Let something happen, and tell how long after it everything was as wanted for good.

    :param event: name and arguments of a function of this file.
    :param hold: seconds for which it must stay so.
    :param appears: counted from when everything that is wanted is there, instead of from the event's end.
    :param gone: the event only begins what happens: wait first until something is not as wanted.
    :return: those seconds (None: not within ``limit``), how long the event took, what it returned, what is wrong.
    """
    begun = time.monotonic()
    answer = globals()[event[0]](*event[1:])
    since = ended = time.monotonic()
    right = None
    while True:
        look = time.monotonic()
        there, wrong = faults(wanted)
        now = time.monotonic()
        if gone:
            gone = not wrong
            since = now
        elif wrong:
            right = None
            if appears and not there:
                since = look
        elif right is None:
            right = now
        elif now - right >= hold:
            return [right - since, ended - begun, answer, []]
        if now - ended > limit:
            return [None, ended - begun, answer, wrong or ["nothing has happened"]]
        time.sleep(max(0.05, now - look))  # the agent needs the emulated CPUs more


#: How the threads of our classes are named by QEMU and by the kernel; of all others only the total tells.
_CLASSES = {
    "vcpu": r"CPU \d+/KVM",
    "emulator": "emulator",
    "iothread": r"IO iothread\d+",
    "vhost": "vhost",
}


def spent(guest):
    """Return CPU seconds of a guest by class and in all, from /proc/PID/task/TID/stat, and its threads."""
    found = dict.fromkeys((*_CLASSES, "total"), 0.0)
    count = dict.fromkeys(found, 0)
    pid = int(get(f"/run/libvirt/qemu/{guest}.pid"))
    found["total"] += _ticks_s(f"/proc/{pid}/stat")
    for thread in threads(guest):
        for kind, name in _CLASSES.items():
            if re.fullmatch(name, thread["name"]):
                seconds = _ticks_s(
                    f"/proc/{pid if thread['own'] else thread['tid']}/task/{thread['tid']}/stat"
                )
                found[kind] += seconds
                count[kind] += 1
                found["total"] += 0.0 if thread["own"] else seconds
    return {"seconds": found, "threads": count}


def _ticks_s(path):
    user, system = get(path).rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def metrics(guest, port):
    """Return CPU seconds of a guest by class as the agent tells Prometheus, with ``spent`` before and after."""
    import urllib.request

    before = spent(guest)
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=300) as answer:
        text = answer.read().decode()
    after = spent(guest)
    seconds = {}
    for labels, value in re.findall(
        r"^nova_perf_guest_host_cpu_seconds_total\{(.+)\} (\S+)$", text, re.MULTILINE
    ):
        if f'guest="{guest}"' in labels:
            seconds[re.search(r'class="(\w+)"', labels).group(1)] = float(value)
    return {"before": before, "seconds": seconds, "after": after}


def console(guest, command, seconds=120):
    """Run a line in the guest's shell on its serial console and return what it prints."""
    import socket

    mark = f"END{os.urandom(3).hex()}"
    with socket.socket(socket.AF_UNIX) as sock:
        sock.connect(f"/run/lab/{guest}.sock")
        sock.settimeout(seconds)
        sock.sendall(f"{command}; echo {mark[:3]}''{mark[3:]}\n".encode())
        data = b""
        while f"{mark}\r".encode() not in data:
            data += sock.recv(4096)
    return data.decode(errors="replace").replace("\r", "").split(mark)[0].partition("\n")[2]


def tally(name, *arguments):
    """Call a function of :mod:`tests.lab.tally`, which uses the project's readers of counters."""
    import importlib

    return getattr(importlib.import_module("tests.lab.tally"), name)(*arguments)


def irqbalance_bans():
    """Return the interrupts that irqbalance says it leaves alone; None while it does not answer."""
    return _ask_irqbalance(b"setup")


def irqbalance_moves():
    """Return the interrupts that irqbalance says it places; None while it does not answer."""
    return _ask_irqbalance(b"stats")


def _ask_irqbalance(question):
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(glob.glob("/run/irqbalance/irqbalance*.sock")[0])
            sock.sendall(question)
            data = b""
            while more := sock.recv(65536):
                data += more
    except (OSError, IndexError):
        return None
    return sorted(int(number) for number in re.findall(rb"\bIRQ (\d+)", data))


def main():
    functions = {
        name: value
        for name, value in globals().items()
        if callable(value) and not name.startswith("_")
    }
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = [functions[name](*arguments), None]
        except Exception:
            answer = [None, traceback.format_exc()]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
