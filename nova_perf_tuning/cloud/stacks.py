"""Heat stacks of pairs: made from the templates of this package, watched, explained and removed."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openstack import exceptions as sdk_errors

from nova_perf_tuning.bench import output
from nova_perf_tuning.cloud import api as api_module
from nova_perf_tuning.cloud import faults, model

#: On every stack; Heat's tags are for people and other tools, names are what is looked for.
TAG: Final = "nova-perf"
_TEMPLATE: Final = "benchmark_pair.yaml"
_DELETE_S: Final = 180.0
_DELETE_ATTEMPTS: Final = 3
#: Heat's delete fails while Nova or Neutron still hold something; a little later it goes through.
_POLL_S: Final = 1.0
_NO_HOST: Final = ("No valid host", "no valid host")
_QUOTA: Final = ("uota exceeded", "exceeds quota", "OverQuota", "exceeded for quota", "Maximum number of")


class StackError(Exception):
    """A stack could not be made, or ended in CREATE_FAILED.

    :ivar kind: the class of the error.
    """

    def __init__(self, kind: model.ErrorClass, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A stack of this package; ``id`` is what Heat calls it."""

    id: str
    name: str


@functools.cache
def files() -> Mapping[str, str]:
    """Return every template and script of this package by its name."""
    folder = importlib.resources.files(__package__).joinpath("heat")
    return {one.name: one.read_text(encoding="utf-8") for one in folder.iterdir() if one.is_file()}


class Stacks:
    """The stacks of one project."""

    def __init__(self, api: api_module.Api) -> None:
        self._api = api

    def create(self, name: str, parameters: Mapping[str, Any], tags: Iterable[str], timeout_min: int) -> Stack:
        """Make a stack and return at once; Heat builds it.

        :raises StackError: Heat refused. :raises api_module.ApiError: it does not answer.
        """
        template = files()[_TEMPLATE]
        request = {
            "stack_name": name,
            "template": template,
            "files": {key: text for key, text in files().items() if f"{{get_file: {key}}}" in template},
            "parameters": {key: _parameter(value) for key, value in parameters.items()},
            "tags": ",".join([TAG, *tags]),
            "timeout_mins": max(1, timeout_min),
            "disable_rollback": True,
        }
        try:
            return Stack(self._api.call(self._post, request), name)
        except sdk_errors.ConflictException:
            # The answer to an earlier attempt was lost; names are unique.
            found = self._api.call(self._api.connection.orchestration.find_stack, name, ignore_missing=False)
            return Stack(str(found.id), name)
        except api_module.ERRORS as error:
            raise StackError(classify(str(error)), f"Heat refused the stack: {faults.told(error)}") from error

    def _post(self, request: Mapping[str, Any]) -> str:
        """Make a stack and return its id; create_stack() would make a list of the tags, and Heat wants text."""
        answer = self._api.connection.orchestration.post("/stacks", json=request)
        sdk_errors.raise_from_response(answer)
        return str(answer.json()["stack"]["id"])

    def status(self, stack: Stack) -> tuple[str, str]:
        """Return ``CREATE_COMPLETE`` or the like, and why."""
        found = self._api.call(self._api.connection.orchestration.get_stack, stack.id, resolve_outputs=False)
        return str(found.status), output.printable(found.status_reason or "", 600)

    def outputs(self, stack: Stack) -> dict[str, Any]:
        """Return the outputs by name, whatever guests put into them."""
        found = self._api.call(self._api.connection.orchestration.get_stack, stack.id)
        return {one["output_key"]: one.get("output_value") for one in found.outputs or []}

    def events(self, stack: Stack) -> list[Any]:
        """Return the events of the stack's resources, oldest first."""
        heat = self._api.connection.orchestration
        found = self._api.call(lambda: list(heat.stack_events(stack.id)))
        return sorted(found, key=lambda event: str(event.event_time))

    def failure(self, stack: Stack, reason: str) -> StackError:
        """Return why a stack failed: the failing resources' own reasons, and the class of the error."""
        told = [
            f"{event.logical_resource_id}: {event.resource_status_reason}"
            for event in self.events(stack)
            if str(event.resource_status).endswith("_FAILED") and event.logical_resource_id != stack.name
        ]
        # Whatever else was being made is cancelled and says so; that explains nothing.
        told = [one for one in told if "aborted" not in one and "Stack CREATE cancelled" not in one] or [reason]
        text = output.printable("; ".join(dict.fromkeys(told)), 900)
        return StackError(classify(text), text)

    def owned(self, run_id: str = "") -> list[Stack]:
        """Return the stacks that a run (any run if empty) left."""
        prefix = f"{model.NAME_PREFIX}{run_id}-" if run_id else model.NAME_PREFIX
        heat = self._api.connection.orchestration
        found = self._api.call(lambda: list(heat.stacks()))
        return [Stack(one.id, one.name) for one in found if one.name.startswith(prefix)]

    def delete(self, stacks: Iterable[Stack]) -> list[str]:
        """Remove stacks and wait until they are gone; return what could not be removed, a line each."""
        waiting = {stack.id: stack for stack in stacks}
        attempts = dict.fromkeys(waiting, 0)
        problems: dict[str, str] = {}
        deadline = time.monotonic() + _DELETE_S
        while waiting and time.monotonic() < deadline:
            for stack in list(waiting.values()):
                try:
                    gone = self._delete_step(stack, attempts)
                except (*api_module.ERRORS, api_module.ApiError) as error:
                    attempts[stack.id] += 1
                    problems[stack.id] = faults.told(error)
                    gone = attempts[stack.id] > _DELETE_ATTEMPTS
                else:
                    if gone:
                        problems.pop(stack.id, None)
                if gone:
                    del waiting[stack.id]
            if waiting:
                time.sleep(_POLL_S)
        for stack in waiting.values():
            problems.setdefault(stack.id, f"still there after {_DELETE_S:.0f} s or {_DELETE_ATTEMPTS} attempts")
        return [f"stack {stack_id}: {text}" for stack_id, text in problems.items()]

    def _delete_step(self, stack: Stack, attempts: dict[str, int]) -> bool:
        """Push one stack towards its end; True when it is gone."""
        heat = self._api.connection.orchestration
        try:
            found = self._api.call(heat.get_stack, stack.id, resolve_outputs=False)
        except sdk_errors.NotFoundException:
            return True
        status = str(found.status)
        if status == "DELETE_COMPLETE":
            return True
        if status == "DELETE_IN_PROGRESS":
            return False
        if attempts[stack.id] >= _DELETE_ATTEMPTS:
            return False
        attempts[stack.id] += 1
        self._api.call(heat.delete_stack, stack.id, ignore_missing=True)
        return False


def classify(reason: str) -> model.ErrorClass:
    """Return the class of the error that a reason of Heat, Nova or Neutron means."""
    if any(text in reason for text in _NO_HOST):
        return model.ErrorClass.NO_HOST
    if any(text in reason for text in _QUOTA):
        return model.ErrorClass.QUOTA
    if "WaitConditionTimeout" in reason or "Timed out" in reason or "timed out" in reason:
        return model.ErrorClass.NO_SIGNAL
    if "WaitConditionFailure" in reason:
        return model.ErrorClass.BENCHMARK_FAILED
    return model.ErrorClass.STACK_FAILED


def _parameter(value: Any) -> Any:
    """Return a value as Heat's API takes parameters: JSON as text, everything else as it is."""
    return json.dumps(value) if isinstance(value, dict | list | tuple) else value
