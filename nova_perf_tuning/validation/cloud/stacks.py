"""Heat stacks of pairs: made from the templates of this package, watched, explained and removed."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final

from openstack import exceptions as sdk_exceptions
from openstack.orchestration.v1 import stack as sdk_stack

from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.cloud import api as api_module
from nova_perf_tuning.validation.cloud import model, sdk_errors

#: On every stack; what has it not is not ours, whatever its name.
TAG: Final = "nova-perf"
_TEMPLATE: Final = "benchmark_pair.yaml"
_DELETE_S: Final = 180.0
#: Between two attempts: Heat's delete fails while Nova or Neutron still hold something, which may take minutes.
_RETRY_S: Final = 5.0
_POLL_S: Final = 1.0
#: A stack whose creation nobody confirmed may appear so much later: Heat still works on the request.
_APPEAR_S: Final = 10.0
_NO_HOST: Final = ("No valid host", "no valid host")
_QUOTA: Final = (
    "uota exceeded",
    "exceeds quota",
    "OverQuota",
    "exceeded for quota",
    "Maximum number of",
    "is over a limit for",  # Nova with unified limits
    "reached the maximum stacks",  # Heat, per tenant or per project
)
#: The one kind of resource whose reason holds text of a guest. As the event of the resource or the stack words it.
_WAIT_CONDITION: Final = re.compile(
    r"(?:[A-Za-z_]+: )?(?:Resource [A-Z]+ failed: )?WaitCondition(Failure|Timeout): "
    r"(?:resources\.[A-Za-z_.]+: )?(.*)",
    re.DOTALL,
).match
#: How heat/runner.sh says that a guest is ready, as the event of the signal words it; the role is the signal's id.
_READY: Final = re.compile(r"(?:Signal: )?status:SUCCESS reason:(client|server) ready: ").match
#: How heat/runner.sh says that the client waits in vain. A guest that lies so gains what silence would give it.
_SILENT_PEER: Final = re.compile(r"client: the server \S+ does not answer on port [0-9]+").match


class StackError(Exception):
    """A stack could not be made, or ended in CREATE_FAILED.

    :ivar kind: the class of the error.
    """

    def __init__(self, kind: model.ErrorClass, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A stack of this package.

    :ivar id: what Heat calls it; empty: Heat was asked to make it, and nobody knows whether it did.
    """

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

        :raises StackError: Heat refused. :raises api_module.ERRORS: the credentials are refused, or no service is
            found. :raises api_module.ApiError: it does not answer; the stack may be there all the same.
        """
        template = files()[_TEMPLATE]
        request = {
            "stack_name": name,
            "template": template,
            "files": {key: text for key, text in files().items() if f"{{get_file: {key}}}" in template},
            "parameters": {  # JSON as text
                key: json.dumps(value) if isinstance(value, dict | list | tuple) else value
                for key, value in parameters.items()
            },
            "tags": ",".join([TAG, *tags]),
            "timeout_mins": max(1, timeout_min),
            "disable_rollback": True,
        }
        try:
            return Stack(self._api.read(lambda: self._post(request)), name)
        except sdk_exceptions.ConflictException:
            # The answer to an earlier attempt was lost; names are unique.
            found = self._api.read(
                lambda: self._api.connection.orchestration.find_stack(name, ignore_missing=False)
            )
            return Stack(str(found.id), name)
        except api_module.ERRORS as error:
            if api_module.http_status(error) in (None, 401):
                raise  # it is not this stack that is refused, or nobody was asked
            kind = classify(str(error))
            # Heat has not looked at the pair's hosts yet.
            kind = model.ErrorClass.API if kind is model.ErrorClass.STACK_FAILED else kind
            raise StackError(kind, f"Heat refused the stack: {sdk_errors.told(error)}") from error

    def _post(self, request: Mapping[str, Any]) -> str:
        """Make a stack and return its id; create_stack() would make a list of the tags, and Heat wants text."""
        answer = self._api.connection.orchestration.post("/stacks", json=request)
        sdk_exceptions.raise_from_response(answer)
        return str(answer.json()["stack"]["id"])

    def status(self, stack: Stack) -> tuple[str, str]:
        """Return ``CREATE_COMPLETE`` or the like, and why."""
        found = self._get(stack.id, resolve_outputs=False)
        return str(found.status), one_line(found.status_reason or "", 600)

    def outputs(self, stack: Stack) -> dict[str, Any]:
        """Return the outputs by name, whatever guests put into them."""
        found = self._get(stack.id)
        return api_module.read(lambda: {one["output_key"]: one.get("output_value") for one in found.outputs or ()})

    def _get(self, known_as: str, **options: bool) -> Any:
        """Return what Heat says of a stack by its id or name."""

        def get() -> Any:
            found = self._api.connection.orchestration.get_stack(known_as, **options)
            if not found.status:  # openstacksdk makes a stack without anything of an answer that is no JSON
                raise api_module.UnreadableError("the answer does not describe a stack")
            return found

        return self._api.read(get)

    def events(self, stack: Stack) -> list[Any]:
        """Return the events of the stack's resources, oldest first."""
        found = self._list("stack_events", _known(stack))
        return sorted(found, key=lambda event: str(event.event_time))

    def servers(self, stack: Stack) -> dict[str, str]:
        """Return the ids of the guests that Nova knows, by role."""
        found = self._list("resources", _known(stack))
        return {
            one.name: one.physical_resource_id
            for one in found
            if one.name in ("client", "server") and one.physical_resource_id
        }

    def _list(self, what: str, *of: Any) -> list[Any]:
        """Return a list of Heat's, by the name of openstacksdk's method."""
        return self._api.read(lambda: list(getattr(self._api.connection.orchestration, what)(*of)))

    def failure(self, stack: Stack, reason: str) -> StackError:
        """Return why a stack failed: the failing resources' own reasons, and the class of the error."""
        events = self.events(stack)
        told = [
            f"{event.logical_resource_id}: {event.resource_status_reason}"
            for event in events
            if str(event.resource_status).endswith("_FAILED") and event.logical_resource_id != stack.name
        ]
        # Whatever else was being made is cancelled and says so; that explains nothing.
        told = [one for one in told if not _is_cancelled(one)] or [reason]
        kinds = [kind for kind in map(classify, told) if kind is not model.ErrorClass.STACK_FAILED]
        kind = kinds[0] if kinds else model.ErrorClass.STACK_FAILED
        if kind is model.ErrorClass.NO_SIGNAL and len(ready(events)) > 1:
            # Both guests have told that they are ready: they are slow, not silent.
            kind = model.ErrorClass.TIME_LIMIT
        return StackError(kind, one_line("; ".join(dict.fromkeys(told)), 900))

    def owned(self, run_id: str) -> list[Stack]:
        """Return the stacks that a run left: known by tag and name, both of which we gave."""
        prefix = f"{model.NAME_PREFIX}{run_id}-"
        return [
            Stack(str(one.id), name)
            for one in self._list("stacks")
            if (name := str(one.name)).startswith(prefix) and isinstance(one.tags, list) and TAG in one.tags
        ]

    def delete(self, stacks: Iterable[Stack]) -> list[str]:
        """Remove stacks and wait until they are gone; return what could not be removed, a line each."""
        begun = time.monotonic()
        waiting = dict.fromkeys(stacks, begun)
        problems: dict[Stack, str] = {}
        with self._api.until(begun + _DELETE_S):
            while waiting and time.monotonic() - begun < _DELETE_S:
                for stack in list(waiting):
                    late = time.monotonic() - begun
                    if late >= _DELETE_S:  # a Heat that does not answer holds up each call
                        break
                    try:
                        waiting[stack] = self._push(stack, waiting[stack], problems)
                    except sdk_exceptions.NotFoundException:
                        if stack.id or late >= _APPEAR_S:
                            del waiting[stack]
                            problems.pop(stack, None)
                    except api_module.ERRORS as error:
                        problems[stack] = sdk_errors.told(error)
                        if api_module.http_status(error) in (401, 403):
                            del waiting[stack]
                if waiting:
                    time.sleep(_POLL_S)
        after = f"still there after {_DELETE_S:.0f} s: "
        return [
            f"stack {stack.name}: {after if stack in waiting else ''}{problems.get(stack, 'no reason')}"
            for stack in {**waiting, **problems}
        ]

    def _push(self, stack: Stack, due: float, problems: dict[Stack, str]) -> float:
        """Push one stack towards its end from ``due`` on; return when the next attempt may be made.

        :raises openstack.exceptions.NotFoundException: it is gone.
        """
        found = self._get(stack.id or stack.name, resolve_outputs=False)
        if found.status == "DELETE_COMPLETE":
            raise sdk_exceptions.NotFoundException
        if found.status == "DELETE_FAILED":
            problems[stack] = one_line(found.status_reason or "", 300)
        if found.status == "DELETE_IN_PROGRESS" or time.monotonic() < due:
            return due
        self._api.call(self._api.connection.orchestration.delete_stack, str(found.id), ignore_missing=True)
        return time.monotonic() + _RETRY_S


def _known(stack: Stack) -> sdk_stack.Stack:
    """Return a stack as openstacksdk takes it without asking for it first."""
    return sdk_stack.Stack.new(id=stack.id, name=stack.name)


def signals(events: Iterable[Any], to: str) -> list[Any]:
    """Return the events by which guests told something to a handle."""
    return [one for one in events if one.resource_status == "SIGNAL_COMPLETE" and one.logical_resource_id == to]


def ready(events: Iterable[Any]) -> dict[str, Any]:
    """Return role -> the event by which that guest told first that it is ready.

    A signal whose answer was lost is sent again: two may be of one guest.
    """
    found: dict[str, Any] = {}
    for one in signals(events, "report_handle"):
        if told := _READY(str(one.resource_status_reason)):
            found.setdefault(told[1], one)
    return found


def classify(reason: str) -> model.ErrorClass:
    """Return the class of the error that a reason of Heat, Nova or Neutron means.

    What a guest said is in some reasons; only what it may decide is taken from it.
    """
    if found := _WAIT_CONDITION(reason):
        if found[1] == "Timeout" or _SILENT_PEER(found[2]):
            return model.ErrorClass.NO_SIGNAL
        return model.ErrorClass.BENCHMARK_FAILED
    if any(text in reason for text in _NO_HOST):
        return model.ErrorClass.NO_HOST
    if any(text in reason for text in _QUOTA):
        return model.ErrorClass.QUOTA
    return model.ErrorClass.STACK_FAILED


def _is_cancelled(told: str) -> bool:
    return not _WAIT_CONDITION(told) and ("aborted" in told or "Stack CREATE cancelled" in told)
