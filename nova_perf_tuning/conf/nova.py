# SPDX-License-Identifier: Apache-2.0
"""Options that Nova's services read: the driver hook, the traits of a host, the weigher.

They stand in ``nova.conf``; what the commands and the agent read of the same group stands in their own file.
"""

from collections.abc import Iterable
from typing import Final

from oslo_config import cfg

from nova_perf_tuning.printing import one_line

GROUP = cfg.OptGroup(
    "nova_perf_tuning",
    title="Tuning of this compute host",
    help="""
Options of the commands, the agent, nova-compute and nova-scheduler. ``nova-perf apply``, ``verify``, ``restore`` and
``status`` have an option ``--state-dir``, which overrides ``state_dir``.
""",
)

#: Of our commands and the agent.
HOST_OPTS = [
    cfg.StrOpt(
        "state_dir",
        default="/var/lib/nova-perf-tuning",
        regex="^/",
        help="""
Directory of the journal, which holds the original of everything that was changed.

It must be on a disk that survives a crash, belong to root and be writable by root alone. With a full or read-only
disk ``apply`` refuses to start.

Change it when /var is small, read-only (an image-based host) or shared between hosts. If settings are applied, move
the directory as well, or run ``nova-perf restore`` first: a journal left behind cannot undo them.
""",
    ),
]

#: Of the weigher, where the option says nothing that can be used.
WEIGHT: Final = 1.0

OPTS = [
    cfg.StrOpt(
        "on_error",
        default="fail",
        choices=[
            ("fail", "the instance goes to ERROR with a fault message that names the extra spec"),
            (
                "ignore",
                "the fault is logged and the instance starts without the tuning that could not be made",
            ),
        ],
        help="""
What happens to an instance when the ``perf:`` extra specs of its flavor cannot be put into effect on this host.

With ``fail``, a wrong spec shows as an instance in ERROR; the fault says which spec and why. A resize (within a
cell) to a flavor with a wrong spec is refused before the guest is touched. So is a hard reboot of a guest whose
specs have become wrong. With ``ignore``, it shows as a warning in the log of nova-compute and a slower guest.

With either value, a correct spec that has no effect on this host, such as a ring that its QEMU does not have, is
left out, with a line in that log ("left out: ..."). Wrong properties of an image (``hw_perf_*``) are left out too.

Start with ``fail``: a flavor that promises a speed and does not deliver it is the harder fault to find. Use
``ignore`` where instances must start in any case, for instance while hosts are evacuated after a failure.
Neither value affects instances without ``perf:`` specs.
""",
    ),
    cfg.IntOpt(
        "image_iothreads",
        default=4,
        min=0,
        max=16,
        help="""
How many I/O threads an image may ask for with ``hw_perf_iothreads``.

Each is a thread of the host, and images belong to tenants. An image that asks for more gets none, with a warning
in the log of nova-compute; a flavor may ask for up to 16 (``perf:iothreads``).

If too large, hosts have more runnable threads than CPUs for them. With 0, only flavors can request I/O threads.
""",
    ),
    cfg.StrOpt(
        "profile_dir",
        help="""
Directory with your own profiles (``*.yaml``), which are read in addition to those of the package.

The symptom of a directory that is missing, or set on some hosts only, is "no such profile" in the fault of an
instance whose flavor names one of yours. Give it the same contents on every compute host.

/etc/nova-perf-tuning/profiles is a good place. A profile of yours cannot have the name of a packaged profile.
``nova-perf-status upgrade check`` reads the directory as nova-compute would.
""",
    ),
    cfg.StrOpt(
        "result_file",
        default="/var/lib/nova-perf-tuning/verdict.json",
        help="""
File with the latest validation result of this host, from which nova-compute makes the host's traits.

Its name ends in ``.json``, and its directory is ``state_dir`` as set in
/etc/nova-perf-tuning/nova-perf-tuning.conf, or the default of ``state_dir``. ``nova-perf publish`` refuses any
other: it runs as root, and other users may own nova.conf.

The symptom of a wrong path is a host that passed its validation but has no trait CUSTOM_PERF_VALIDATED in
Placement, so that flavors which require the trait end with "No valid host". nova-compute must be able to read
the file; only root needs to write it.

While the file exists, nova-compute owns the CUSTOM_PERF_* traits of the host and removes those that others set.
Without it they are left to ``openstack perf publish``, so use either the file or that command on a host, not both.

A new result counts with the next update of the host's inventory, after about a minute.
""",
    ),
    cfg.IntOpt(
        "result_max_age",
        default=30 * 24 * 3600,
        min=60,
        max=100 * 365 * 24 * 3600,
        help="""
Seconds for which a validation result counts; after that the host loses its CUSTOM_PERF_* traits and its score.

If too large, a host keeps its trait although a new kernel or BIOS setting has made it slow. If too small, the
scheduler passes over hosts between two validations. Running instances are not affected.

Start with 30 days, and keep it at least twice the interval at which hosts are validated.
""",
    ),
    cfg.FloatOpt(
        "perf_weight_multiplier",
        default=WEIGHT,
        help="""
How much nova-scheduler prefers hosts with a better score in their latest validation.

Read by nova-scheduler, and only when ``[filter_scheduler] weight_classes`` names
``nova_perf_tuning.nova.weigher.PerfWeigher``. Positive values prefer better hosts, negative values keep
them free, 0 switches the preference off. An aggregate's metadata ``perf_weight_multiplier`` overrides it for
its hosts.

A score is the share of the bare host's speed that guests reached, in percent. It is not normalized: 97 counts as
0.97, and no score as 0. It counts only for instances with ``perf:`` specs. So 1.0 prefers validated hosts; with 10 or
more, a few percent count as much as Nova's own weighers. If a flavor must not run elsewhere, let it require the trait
CUSTOM_PERF_VALIDATED.
""",
    ),
]


def faults(conf: cfg.ConfigOpts, group: str, options: Iterable[cfg.Opt]) -> dict[str, str]:
    """Return option -> one line, ``[group] option: reason``, for each option whose value cannot be used."""
    lines = {}
    for option in options:
        reason = ""
        try:
            if conf[group][option.dest] in (None, "") and option.default is not None:
                reason = "it is empty"
        except (cfg.Error, ValueError) as error:
            text = one_line(
                error, 400
            )  # oslo.config's own begins with the repr of where the value is from
            reason = text.partition(" is not valid: ")[2] or text
        if reason:
            lines[option.dest] = f"[{group}] {option.dest}: {reason}; correct or remove the line"
    return lines


def mistakes(conf: cfg.ConfigOpts) -> dict[str, str]:
    """Return option -> a line for each of these whose value cannot be used; none of them stops Nova's service."""
    return {
        name: f"{line} and restart the service"
        for name, line in faults(conf, GROUP.name, OPTS).items()
    }


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Add these options to ``conf``, Nova's own among others; doing it twice changes nothing."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)
