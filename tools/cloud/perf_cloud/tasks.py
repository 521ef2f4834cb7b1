# SPDX-License-Identifier: Apache-2.0
"""Runs steps that depend on each other, side by side as far as they allow."""

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable
from concurrent import futures

from perf_cloud import layout


class Stopped(Exception):
    """Another step has failed, so this one has no purpose any more."""


@dataclasses.dataclass(frozen=True)
class Task:
    """One step.

    :ivar action: does it; returns whether there was something to do.
    :ivar needs: names of the steps that must be through before.
    """

    name: str
    action: Callable[[], bool]
    needs: tuple[str, ...] = ()


class Run:
    """One run of a set of steps.

    :param report: called with the name of each step that did something, when it is through.
    """

    def __init__(self, report: Callable[[str], None]) -> None:
        self._report = report
        self._stop = threading.Event()

    def all(self, tasks: Iterable[Task]) -> None:
        """Run every step; raise the error of the first that fails, after the others have noticed."""
        todo = {task.name: task for task in tasks}
        running: dict[str, futures.Future[None]] = {}
        with futures.ThreadPoolExecutor(max_workers=len(todo)) as pool:
            try:
                for task in todo.values():  # those that are needed stand first
                    running[task.name] = pool.submit(
                        self._one, task, [running[name] for name in task.needs]
                    )
                for future in futures.as_completed(running.values()):
                    if not isinstance(future.exception(), Stopped):
                        future.result()
            finally:
                self._stop.set()

    def _one(self, task: Task, needs: list[futures.Future[None]]) -> None:
        futures.wait(needs)
        if self._stop.is_set() or any(future.exception() for future in needs):
            raise Stopped
        if task.action():
            self._report(task.name)

    def wait_for(
        self,
        what: str,
        condition: Callable[[], bool],
        *,
        seconds: float = 240,
        interval: float = 0.1,
    ) -> None:
        """Poll until ``condition`` holds.

        :raises CloudError: it does not within ``seconds``.
        :raises Stopped: another step has failed meanwhile.
        """
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                raise layout.CloudError(f"{what}: no success after {seconds:.0f} s")
            if self._stop.wait(interval):
                raise Stopped
