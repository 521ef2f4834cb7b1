# SPDX-License-Identifier: Apache-2.0
"""Work of a host that reaches one CPU by one channel.

Run as ``python -m tests.support.intruders KIND CPU OTHER``. It says "ready" on standard
output, and goes on until its standard input ends.
"""

import ctypes
import os
import select
import socket
import struct
import sys
import time

#: membarrier(2): number of the system call, and its commands.
_MEMBARRIER = {"x86_64": 324}.get(os.uname().machine, 283)
_GLOBAL, _REGISTER = 1 << 1, 1 << 2
NAME = "intruder"
_RATE_S = 0.002


def _until_the_end(work, pause_s=_RATE_S):
    """Do some work again and again."""
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    while not select.select([sys.stdin], [], [], pause_s)[0]:
        work()


def _spin(seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def thread(cpu, _other):
    """Run on the CPU 500 times a second, woken by a timer there."""
    os.sched_setaffinity(0, {cpu})
    with open("/proc/self/comm", "w") as file:
        file.write(NAME)
    _until_the_end(lambda: _spin(0.0001))


def busy(_cpu, other):
    """Keep another CPU busy: a thread of the kernel that may choose takes the CPU."""
    os.sched_setaffinity(0, {other})
    _until_the_end(lambda: _spin(0.05), 0)


def loopback(cpu, _other):
    """Send packets on the CPU to itself: it polls its backlog."""
    os.sched_setaffinity(0, {cpu})
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        _until_the_end(lambda: sock.sendto(b"x", sock.getsockname()))


def _frame(destination=b"\xff" * 6):
    """Return a small UDP packet from 192.0.2.1 to 192.0.2.2."""
    udp = struct.pack("!HHHH", 4000, 4001, 8, 0)
    addresses = socket.inet_aton("192.0.2.1") + socket.inet_aton("192.0.2.2")
    head = struct.pack("!BBHHHBBH", 0x45, 0, 20 + len(udp), 0, 0, 64, 17, 0) + addresses
    total = sum(struct.unpack("!10H", head))
    checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
    head = head[:10] + struct.pack("!H", checksum) + head[12:]
    frame = destination + b"\x02" * 6 + b"\x08\x00" + head + udp
    return frame.ljust(60, b"\0")


def _send(frame, other):
    """Send a packet on another CPU again and again."""
    os.sched_setaffinity(0, {other})
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sock:
        sock.bind(("v0", 0))
        _until_the_end(lambda: sock.send(frame))


def packets(_cpu, other):
    """Send packets on another CPU through a veth; needs the devices v0 and v1."""
    _send(_frame(), other)


def rps(cpu, other):
    """Send packets through a veth whose receive queue names the CPU.

    /sys must be that of the network namespace of the devices v0 and v1.
    """
    with open("/sys/class/net/v1/queues/rx-0/rps_cpus", "w") as file:
        file.write(f"{1 << cpu:x}")
    packets(cpu, other)


def rfs(cpu, other):
    """Send packets through a veth to a reader on the CPU; v1 has the address 192.0.2.2/24."""
    with open("/sys/class/net/v1/address") as file:
        destination = bytes.fromhex(file.read().strip().replace(":", ""))
    reader = os.fork()
    if not reader:
        os.sched_setaffinity(0, {cpu})
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.bind(("192.0.2.2", 4001))
            sock.connect(("192.0.2.1", 4000))
            while True:
                sock.recv(100)
    try:
        _send(_frame(destination), other)
    finally:
        os.kill(reader, 9)
        os.waitpid(reader, 0)


def ipi(cpu, other):
    """Interrupt the CPU from another one: a program runs there that has asked for barriers."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.syscall(_MEMBARRIER, _REGISTER, 0, 0)
    child = os.fork()
    if not child:
        os.sched_setaffinity(0, {cpu})
        parent = os.getppid()
        while os.getppid() == parent:
            _spin(0.01)
        os._exit(0)
    os.sched_setaffinity(0, {other})
    try:
        _until_the_end(lambda: libc.syscall(_MEMBARRIER, _GLOBAL, 0, 0))
    finally:
        os.kill(child, 9)
        os.waitpid(child, 0)


def workqueue(_cpu, other):
    """Have the kernel do a work on each CPU."""
    os.sched_setaffinity(0, {other})

    def refresh():
        with open("/proc/sys/vm/stat_refresh", "w") as file:
            file.write("1")

    _until_the_end(refresh, 0.02)


def writeback(cpu, other):
    """Have an unbound workqueue write dirty pages; its mask is the CPU until the end."""
    os.sched_setaffinity(0, {other})
    mask = "/sys/devices/virtual/workqueue/writeback/cpumask"
    with open(mask) as file:
        before = file.read()
    path = f"/var/tmp/intruder-{os.getpid()}"

    def write():
        with open(path, "wb") as file:
            file.write(os.urandom(8192))
        os.sync()

    try:
        with open(mask, "w") as file:
            file.write(f"{1 << cpu:x}")
        _until_the_end(write, 0.02)
    finally:
        with open(mask, "w") as file:
            file.write(before)
        if os.path.exists(path):
            os.unlink(path)


_WORK = (thread, busy, loopback, packets, rps, rfs, ipi, workqueue, writeback)
KINDS = {work.__name__: work for work in _WORK}

if __name__ == "__main__":
    KINDS[sys.argv[1]](int(sys.argv[2]), int(sys.argv[3]))
