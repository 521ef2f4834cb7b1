"""Runs inside the emulated host and reads what holds there, without any code of the project.

Started by :mod:`tests.lab.rig` as one process with one connection: a line of JSON is ``[function, arguments]``,
the answer a line of JSON ``[result, error]``.
"""

import glob
import json
import os
import re
import subprocess
import sys
import time
import traceback


def run(command, seconds=300):
    """Run a shell command; return code and output with errors."""
    done = subprocess.run(
        ["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        timeout=seconds, text=True, errors="replace",
    )  # fmt: skip
    return [done.returncode, done.stdout]


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


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
    folder = f"/proc/irq/{number}"
    names = [entry.name for entry in os.scandir(folder) if entry.is_dir()]
    return {
        "irq": number,
        "name": names[0] if names else None,
        "cpus": _cpus(get(f"{folder}/smp_affinity_list")),
        "effective": get(f"{folder}/effective_affinity_list"),
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
    return [one for one in device_irqs(os.path.basename(path)) if one["name"]]


def xps(nic):
    """Return each transmit queue's mask as a number."""
    files = sorted(glob.glob(f"/sys/class/net/{nic}/queues/tx-*/xps_cpus"))
    return [int(get(path).replace(",", ""), 16) for path in files]


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


def counters(guest):
    """Return CPU seconds of a guest since it began: our classes, what /proc and libvirt say, our classes again."""
    from nova_perf_tuning.host.facts import filesystem, guests
    from nova_perf_tuning.launch import cpu

    [process] = [one for one in guests.read_guests(filesystem.LiveRoot())[0] if one.name == guest]
    before, _wait = cpu.read(process.pid, process.threads)
    user, system = get(f"/proc/{process.pid}/stat").rpartition(")")[2].split()[11:13]
    _code, told = run(f"virsh domstats --cpu-total --vcpu {guest}")
    times = dict(re.findall(r"(cpu|vcpu\.\d+)\.time=(\d+)", told))
    libvirts = {name: int(text) / 1e9 for name, text in times.items()}
    after, _wait = cpu.read(process.pid, process.threads)
    proc = (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    return {"before": before, "proc": proc, "libvirt": libvirts, "after": after}


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


def busy():
    """Return CPU seconds that the host's CPUs have worked, but for time inside guests, and the monotonic clock."""
    with open("/proc/stat") as file:
        user, nice, system, _idle, _wait, irq, softirq, _steal, guest, guest_nice = map(
            int, file.readline().split()[1:11]
        )
    worked = user + nice + system + irq + softirq - guest - guest_nice  # user has guest in it, nice guest_nice
    return [worked / os.sysconf("SC_CLK_TCK"), time.monotonic()]


def irqbalance_bans():
    """Return the interrupts that irqbalance says it leaves alone; None while it does not answer."""
    import socket

    try:
        with socket.socket(socket.AF_UNIX) as sock:
            sock.connect(glob.glob("/run/irqbalance/irqbalance*.sock")[0])
            sock.sendall(b"setup")
            data = b""
            while more := sock.recv(65536):
                data += more
    except (OSError, IndexError):
        return None
    return sorted(int(number) for number in re.findall(rb"IRQ (\d+)", data))


def main():
    functions = {name: value for name, value in globals().items() if callable(value) and not name.startswith("_")}
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            answer = [functions[name](*arguments), None]
        except Exception:
            answer = [None, traceback.format_exc()]
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
