"""Options of what changes a compute host: group ``[nova_perf_tuning]``."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "nova_perf_tuning",
    title="Tuning of this compute host",
    help="""
What our commands, the agent, nova-compute and nova-scheduler need to know. ``nova-perf apply``, ``verify``,
``restore`` and ``status`` have a flag of the same name, which wins, for those that are theirs.
""",
)

OPTS = [
    cfg.StrOpt(
        "state_dir",
        default="/var/lib/nova-perf-tuning",
        help="""
Folder of the journal, which holds the original of everything that was changed.

It must be on a disk that survives a crash, belong to root and be writable by nobody else. Without it nothing is
ever written to the kernel, so a full or read-only disk shows as ``apply`` refusing to start.

Change it when /var is small, read-only (an image-based host) or shared between hosts. Move the folder along when
something is applied, or run ``nova-perf restore`` first: a journal left behind can no longer undo.
""",
    ),
    cfg.FloatOpt(
        "lock_timeout",
        default=10.0,
        min=0.0,
        max=3600.0,
        help="""
Seconds that a command waits while another one changes this host.

The symptom of too small a value is "process N is changing this host" in the log of a timer job. One pass takes
well under a second on hosts with thousands of interrupts; 10 is a good value to start with, 0 gives up at once.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Add this group to ``conf``."""
    conf.register_group(GROUP)
    conf.register_opts(OPTS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """Return this module's group with its options, for the sample generator."""
    return [(GROUP, OPTS)]
