"""Commands that a run over many hosts tells its user to give next, as a shell takes them."""

from __future__ import annotations

import argparse
import dataclasses
import shlex
from typing import Final

#: What a run does not keep itself, so that it has to be said again.
_AGAIN: Final = ("database", "output", "budget", "bare_host", "host_group", "junit", "csv", "prometheus")
#: What a run keeps of its beginning; of a later call these hold for that call alone.
_LIMITS: Final = ("pair_time_limit", "boot_time", "max_loss", "max_parallel", "retries", "agent_metrics")


@dataclasses.dataclass(frozen=True, slots=True)
class Hints:
    """The commands that follow this one.

    :ivar program: as the user calls it, without options.
    :ivar os_cloud: the entry of clouds.yaml that the user named before it, as in ``openstack --os-cloud X perf``.
    """

    args: argparse.Namespace
    program: str
    os_cloud: str = ""

    def resume(self, run_id: str) -> str:
        """Return the command that goes on with a run."""
        first, *rest = self.program.split()
        names = ("os_cloud", *_AGAIN, *(_LIMITS if self.args.resume else ()))
        before = ["--os-cloud", self.os_cloud] if self.os_cloud else []
        return shlex.join([first, *before, *rest, *self._options(names), "--resume", run_id])

    def cleanup(self, run_id: str) -> str:
        """Return the command that removes what a run left."""
        cloud = self.os_cloud or self.args.os_cloud
        before = ["--os-cloud", cloud] if cloud else []
        return shlex.join(["openstack", *before, "perf", "cleanup", run_id, *self._options(("database",))])

    def _options(self, names: tuple[str, ...]) -> list[str]:
        found = []
        for name in names:
            value = getattr(self.args, name)
            if value is None or value == [] or (name, value) == ("output", "."):
                continue
            for text in value if isinstance(value, list) else [value]:
                found += [f"--{name.replace('_', '-')}", _shown(name, text)]
        return found


def _shown(name: str, text: str) -> str:
    from nova_perf_tuning.database import engine

    return engine.without_password(text) if name == "database" else text
