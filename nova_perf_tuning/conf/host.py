"""Options of what changes a compute host: group ``[nova_perf_tuning]``."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "nova_perf_tuning",
    title="Tuning of this compute host",
    help="""
What our commands, the agent, nova-compute and nova-scheduler need to know. ``--state-dir`` of ``nova-perf apply``,
``verify``, ``restore`` and ``status`` wins over ``state_dir``.
""",
)

OPTS = [
    cfg.StrOpt(
        "state_dir",
        default="/var/lib/nova-perf-tuning",
        regex="^/",
        help="""
Folder of the journal, which holds the original of everything that was changed.

It must be on a disk that survives a crash, belong to root and be writable by nobody else. Without it nothing is
ever written to the kernel, so a full or read-only disk shows as ``apply`` refusing to start.

Change it when /var is small, read-only (an image-based host) or shared between hosts. Move the folder along when
something is applied, or run ``nova-perf restore`` first: a journal left behind can no longer undo.
""",
    ),
]
