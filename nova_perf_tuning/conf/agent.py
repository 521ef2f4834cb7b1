# SPDX-License-Identifier: Apache-2.0
"""Options of ``nova-perf-agent``: group ``[agent]``."""

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "agent",
    title="The agent that keeps this host tuned",
    help="""
What ``nova-perf-agent`` does on this compute host. It reads these options when it starts, so restart it after a
change: with the default of ``on_stop``, a restart moves nothing.
""",
)

OPTS = [
    cfg.StrOpt(
        "mode",
        default="enforce",
        choices=[
            ("enforce", "the plan is written and kept in force"),
            ("observe", "nothing on the host is written; status and metrics show what would be"),
        ],
        help="""
Mode of the agent: write settings, or only report what it would write.

Begin with ``observe`` on hosts whose plan you have not seen yet, and look at ``nova-perf status --since 7d`` and
``nova_perf_would_change`` for some days. The unit ``nova-perf-agent-observe`` always observes, and cannot write at
all. After a change restart the agent: it first logs what it is about to write.
""",
    ),
    cfg.MultiStrOpt(
        "nova_config",
        default=[],
        help="""
Files of nova-compute from which ``[compute] cpu_dedicated_set``, ``cpu_shared_set`` and ``[libvirt]
cpu_power_management`` are taken; later files override earlier ones. A missing file is ignored. If not set, the agent
looks where RHOSO, kolla-ansible, OpenStack-Ansible or packages keep them; ``nova-perf status`` shows which it found. If
this host has none that can be read, name a file of your own with these options.

The symptom of a wrong path is "dedicated: none" in ``nova-perf plan``, and interrupts on CPUs that a guest gets
later: without the sets, only the pins of guests that already exist are known.
""",
    ),
    cfg.StrOpt(
        "housekeeping",
        help="""
CPUs for interrupts and the host's own work. If not set: online CPUs that are neither dedicated nor isolated.

Set it when guests without dedicated CPUs suffer from interrupts on "their" CPUs: name a few CPUs of each node.
""",
    ),
    cfg.BoolOpt(
        "rps",
        default=False,
        help="""
Spread packet work in software where a NIC has fewer receive queues than local housekeeping CPUs.

The symptom that calls for it is one CPU at 100 % in softirq while its neighbours idle. It costs an interrupt
between CPUs for each burst, so leave it off where NICs have enough queues.
""",
    ),
    cfg.MultiStrOpt(
        "leave_interrupts",
        default=[],
        help="""
Interrupts and devices that are left alone, one pattern per line: the name of an interrupt in /proc/interrupts
(``mlx5_comp*``), a network device (``eth2``) or a PCI address (``0000:3b:00.*``), with ``*`` for any text and ``?`` for
a character.

Interrupts that match stay where they are. A pattern that names a network device, or its PCI address, leaves its
queues' masks (XPS and RPS) and its NAPI threads alone, too.

Name here what another program places: a systemd ``.link`` file with ``IRQAffinity=``, a vendor's script, a storage
appliance. ``nova-perf plan``, ``apply`` and ``audit`` on this host obey it too. They say which interrupts match, and
which patterns match nothing on this host (a typing error, or a device that comes later). With ``--sysroot`` they do
not read it. The agent puts back what it had moved before. ``apply --from FILE`` writes what the file says.
""",
    ),
    cfg.FloatOpt(
        "interval",
        default=10.0,
        min=0.5,
        max=3600.0,
        help="""
Seconds between checks for changes that came without an event (new interrupts, devices, guests, CPUs).

If too large, interrupts of a guest that has reloaded a driver stay on the wrong CPUs for that long.
""",
    ),
    cfg.FloatOpt(
        "verify_interval",
        default=60.0,
        min=1.0,
        max=86400.0,
        help="""
Seconds between two verifications of everything that was placed.

It finds changes without an event: a mask that a driver or the kernel has reset, an interrupt or a thread that
another program has moved. If too large, drift is corrected late.
""",
    ),
    cfg.FloatOpt(
        "passthrough_interval",
        default=2.0,
        min=0.5,
        max=3600.0,
        help="""
Like ``interval``, but while a guest with passed-through devices to place is running (``perf:irq_placement``).

Their interrupts come and go with the guest's driver, without an event on the host. If too large, they may stay
on the wrong node for several seconds after a guest reboot.
""",
    ),
    cfg.StrOpt(
        "on_stop",
        default="leave",
        choices=[
            ("leave", "everything stays as it was placed; the next start goes on from there"),
            (
                "restore",
                "what the agent placed is put back; what people applied stays until nova-perf restore",
            ),
        ],
        help="""
What happens to the tuning when the agent is stopped.

With ``leave`` an upgrade or a restart disturbs no guest, and ``nova-perf restore`` undoes everything.
``restore`` suits a trial, and hosts where another tool takes over. A crash leaves everything in place.
""",
    ),
    cfg.IntOpt(
        "rewrite_limit",
        default=5,
        min=1,
        max=1000,
        help="""
How many times in a row the agent rewrites a value that another program keeps changing before it pauses.

Every five minutes without a change earns one more write. When no writes are left, the agent tries again after 20
seconds, then 40, up to ten minutes, and reports which program may be writing. A change that an event explains (a
driver that was loaded, a guest or this agent that has just started) counts as a fifth of a write. If too large, two
programs take turns and burn CPU. If too small, values stay wrong for a while after several resets by a driver.
""",
    ),
    cfg.StrOpt(
        "run_dir",
        default="/run/nova-perf-tuning",
        regex="^/",
        help="""
Directory for files that a reboot may delete, such as the agent's state, which ``nova-perf status`` shows.

Add it to ``RuntimeDirectory`` of the systemd unit, and keep ``nova-perf-tuning`` there too: irqbalance's policy
script reads its list from that directory.
""",
    ),
    cfg.HostAddressOpt(
        "metrics_address",
        default="127.0.0.1",
        help="""
Address on which the agent serves metrics; 0.0.0.0 for all addresses. There is no password.

The unit allows connections only from this host. To let Prometheus connect, add a drop-in with ``IPAddressAllow=``
and its address.
""",
    ),
    cfg.PortOpt(
        "metrics_port",
        default=0,
        help="""
Port on which the agent serves metrics; 0 for none. 9751 is a good value if it is free.

The agent answers only on ``metrics_address``: ``curl http://127.0.0.1:9751/metrics``. Metrics need the package
``prometheus_client``, which the extra ``agent`` brings. The agent cannot use ports below 1024.
""",
    ),
]
