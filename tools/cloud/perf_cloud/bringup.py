# SPDX-License-Identifier: Apache-2.0
"""Starts whatever of a cloud does not run. Runs in the controller's namespaces, with the cloud's Python.

Given once more it starts what has died meanwhile and leaves the rest alone.
"""

import argparse
import datetime
import functools
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any, Final

from perf_cloud import content, layout, processes, readiness, services, snapshot, tasks

#: Steps whose end is worth a line; of the others only a failure is.
_PHASES: Final = {
    "mariadb": "MariaDB answers",
    "rabbitmq": "RabbitMQ answers",
    "schema of keystone": "schema of Keystone",
    "schema of nova": "schema of Nova",
    "schema of neutron": "schema of Neutron",
    "identity": "users and catalogue",
    "network": "provider network",
    "image": "guest image uploaded",
    "keystone": "Keystone answers",
    "placement": "Placement answers",
    "glance": "Glance answers",
    "neutron": "Neutron answers",
    "nova-api": "Nova answers",
    "heat-api": "Heat answers",
    "restore": "snapshot restored",
    "save": "snapshot saved",
    "ready": "hosts and engines have reported",
}


class Bringup:
    """One start of a cloud.

    :param cloud: as seen from inside.
    :param begun: ``time.time()`` when the user asked for it; phases are counted from there.
    """

    def __init__(self, cloud: layout.Cloud, arguments: argparse.Namespace) -> None:
        self._cloud = cloud
        self._arguments = arguments
        self._begun: float = arguments.begun
        self._since = datetime.datetime.now(datetime.UTC)
        self._catalogue = services.Catalogue(cloud, arguments.venv, arguments.hosts)
        self._hosts = [layout.Host(number) for number in layout.HOSTS[: arguments.hosts]]
        self._run = tasks.Run(self._report)
        self._started: list[str] = []

    def all(self) -> int:
        """Start what is missing; return how many services had to be started."""
        for directory in (
            "glance/images",
            "glance/staging",
            "glance/tasks",
            *(f"{h.name}/instances" for h in self._hosts),
        ):
            (self._cloud.directory / directory).mkdir(parents=True, exist_ok=True)
        steps = [
            tasks.Task(s.name, functools.partial(self._service, s), s.needs)
            for s in self._catalogue.all()
        ]
        if self._cloud.facts().get("populated"):
            steps = _without_filling(steps)
        elif self._arguments.snapshot.exists():
            self._restore()
            steps = _without_filling(steps)
        else:
            steps = self._filling(steps)
        names = [task.name for task in steps]
        self._run.all(_in_order([*steps, tasks.Task("ready", self._ready, tuple(names))]))
        if not self._cloud.facts().get("populated"):
            self._keep()
        return len(self._started)

    def _report(self, step: str) -> None:
        if step in _PHASES:
            print(f"{time.time() - self._begun:6.1f} s  {_PHASES[step]}", flush=True)

    def _service(self, service: services.Service) -> bool:
        if processes.pid_of(self._cloud, service.name):
            return False
        self._started.append(service.name)
        try:
            self._start(service)
        except processes.ServiceDied as error:
            # MariaDB was seen to end by signal 11 at a start, for no reason that its log knows.
            print(
                f"{time.time() - self._begun:6.1f} s  {error}; it is started once more", flush=True
            )
            self._start(service)
        service.configure()
        return True

    def _start(self, service: services.Service) -> None:
        services.start(self._catalogue, self._cloud, service)
        self._run.wait_for(
            f"{service.name} does not answer", functools.partial(self._answers, service)
        )

    def _answers(self, service: services.Service) -> bool:
        processes.demand(self._cloud, service.name)
        return service.ready()

    def _ready(self) -> bool:
        if not self._started:
            return False
        running = [service.name for service in self._catalogue.all()]
        missing = ["?"]

        def ready() -> bool:
            for name in running:
                processes.demand(self._cloud, name)
            missing[0] = readiness.lacking(len(self._hosts), self._since, self._started)
            return not missing[0]

        try:
            self._run.wait_for("the cloud does not become ready", ready, interval=0.5)
        except layout.CloudError as error:
            laggard = processes.last_lines(self._cloud, f"{self._hosts[-1].name}-nova-compute", 1)
            raise layout.CloudError(
                f"{error}: {missing[0]}; nova-compute said last: {laggard}"
            ) from error
        return True

    # ---- the content of a new cloud ----

    def _restore(self) -> None:
        snapshot.restore(self._cloud, self._arguments.snapshot, self._hosts)
        self._cloud.remember(populated=True)
        self._report("restore")

    def _keep(self) -> None:
        snapshot.save(self._cloud, self._arguments.snapshot, self._hosts)
        self._cloud.remember(populated=True)
        self._report("save")

    def _filling(self, steps: list[tasks.Task]) -> list[tasks.Task]:
        environment, image = self._catalogue.environment(), self._arguments.image
        schemas = content.Schemas(self._cloud, self._arguments.venv, environment)
        filling = [_step("databases", content.create_databases, "mariadb")]
        for name, make in schemas.all().items():
            filling.append(_step(f"schema of {name}", make, "databases"))
        filling += [
            _step("identity", self._with_sdk(content.create_identity), "keystone"),
            _step("network", self._with_sdk(content.create_network), "neutron"),
            _step("image", lambda: content.upload_image(image, environment), "glance"),
        ]
        return [*steps, *filling]

    def _with_sdk(self, fill: Callable[[Any], None]) -> Callable[[], None]:
        return lambda: fill(content.connection())


def _step(name: str, action: Callable[[], None], *needs: str) -> tasks.Task:
    def act() -> bool:
        action()
        return True

    return tasks.Task(name, act, needs)


def _without_filling(steps: list[tasks.Task]) -> list[tasks.Task]:
    """Return the steps without what they need only in a new cloud."""
    there = {task.name for task in steps}
    return [
        tasks.Task(t.name, t.action, tuple(name for name in t.needs if name in there))
        for t in steps
    ]


def _in_order(steps: list[tasks.Task]) -> list[tasks.Task]:
    """Return the steps, those that others need first."""
    waiting, ordered, done = list(steps), [], set[str]()
    while waiting:
        free = [task for task in waiting if done.issuperset(task.needs)]
        if not free:
            raise ValueError(f"these steps wait for each other: {[task.name for task in waiting]}")
        ordered += free
        done |= {task.name for task in free}
        waiting = [task for task in waiting if task.name not in done]
    return ordered


def main(argv: list[str]) -> int:
    """Entry point of the inner half of tools/cloud/up."""
    parser = argparse.ArgumentParser(allow_abbrev=False)
    parser.add_argument("--venv", type=pathlib.Path, required=True)
    parser.add_argument(
        "--image", type=pathlib.Path, help="needed, as the next, until the cloud is populated"
    )
    parser.add_argument("--snapshot", type=pathlib.Path)
    parser.add_argument("--hosts", type=int, required=True)
    parser.add_argument("--begun", type=float, required=True)
    arguments = parser.parse_args(argv)
    try:
        started = Bringup(layout.Cloud(layout.INSIDE), arguments).all()
    except layout.CloudError as error:
        print(f"tools/cloud/up: {error}", file=sys.stderr)
        return 3
    seconds = time.time() - arguments.begun
    print(
        f"{seconds:6.1f} s  ready: {arguments.hosts} compute host(s), {started} services started"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
