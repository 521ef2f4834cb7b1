# SPDX-License-Identifier: Apache-2.0
"""Makes, watches, explains and removes Heat stacks of pairs, from this package's templates."""

import dataclasses
import functools
import importlib.resources
import json
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final

from openstack import exceptions as sdk_exceptions
from openstack.orchestration.v1 import _proxy as orchestration
from openstack.orchestration.v1 import stack as sdk_stack

from nova_perf_tuning.placement import api
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.measure import fleet_model

#: On every stack; a stack without it is not ours, whatever its name.
TAG: Final = "nova-perf"
#: Before the token of the process that made a stack, in another tag of it.
_OWNER: Final = f"{TAG}-owner-"
_TEMPLATE: Final = "benchmark_pair.yaml"
DELETE_S: Final = 180.0
#: Between two attempts: Heat's delete fails while Nova or Neutron still hold something, which may
#: take minutes.
RETRY_S: Final = 5.0
POLL_S: Final = 1.0
#: A stack whose creation nobody confirmed may appear so much later: Heat still works on the
#: request.
APPEAR_S: Final = 10.0
#: What Nova, Neutron and Heat say; the last but one is Nova with unified limits, the last Heat, of
#: its stacks.
_QUOTA: Final = re.compile(
    "quota exceeded|exceeds quota|overquota|exceeded for quota|maximum number of|is over a limit for"
    "|reached the maximum stacks",
    re.IGNORECASE,
).search
#: The one kind of resource whose reason holds text of a guest. As the event of the resource or the
#: stack words it.
_WAIT_CONDITION: Final = re.compile(
    r"(?:[A-Za-z_]+: )?(?:Resource [A-Z]+ failed: )?WaitCondition(Failure|Timeout): "
    r"(?:resources\.[A-Za-z_.]+: )?(.*)",
    re.DOTALL,
).match
#: Code of heat/runner.sh: the client waits in vain. A guest that lies so gains what silence would
#: give it.
_SILENT_PEER: Final = "client: [silent-peer] "


class StackError(Exception):
    """A stack could not be made, or ended in CREATE_FAILED."""

    def __init__(self, kind: fleet_model.ErrorClass, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


@dataclasses.dataclass(frozen=True, slots=True)
class Stack:
    """A stack of this package.

    :ivar id: what Heat calls it; empty: Heat was asked to make it, and nobody knows whether it
        did.
    :ivar token: of the process that made it; empty: unknown.
    """

    id: str
    name: str
    token: str = dataclasses.field(default="", compare=False)


@functools.cache
def files() -> Mapping[str, str]:
    directory = importlib.resources.files(__package__).joinpath("templates")
    return {
        file.name: file.read_text(encoding="utf-8")
        for file in directory.iterdir()
        if file.is_file()
    }


class Stacks:
    """The stacks of one project."""

    def __init__(self, cloud_api: api.Api) -> None:
        self._api = cloud_api

    @property
    def _heat(self) -> orchestration.Proxy:
        return self._api.connection.orchestration

    def create(
        self, name: str, parameters: Mapping[str, object], tags: Iterable[str], timeout_min: int
    ) -> Stack:
        """Make a stack and return at once; Heat builds it.

        :raises StackError: Heat refused. :raises api.ERRORS: the credentials are refused,
            no service is found, or it does not answer; the stack may be there all the same.
        """
        template = files()[_TEMPLATE]
        lease = self._api.lease
        all_tags = [TAG]
        if lease is not None:
            all_tags.append(_OWNER + lease.token)
        all_tags.extend(tags)
        needed = {}
        for file, content in files().items():
            if f"{{get_file: {file}}}" in template:
                needed[file] = content
        values = dict(parameters)
        for key, value in parameters.items():
            if isinstance(value, dict | list | tuple):
                values[key] = json.dumps(value)
        request = {
            "stack_name": name,
            "template": template,
            "files": needed,
            "parameters": values,
            "tags": ",".join(all_tags),
            "timeout_mins": max(1, timeout_min),
            "disable_rollback": True,
        }
        try:
            return Stack(self._api.call(lambda: self._post(request), changes=True), name)
        except sdk_exceptions.ConflictException:
            # The answer to an earlier attempt was lost; names are unique.
            find = functools.partial(self._heat.find_stack, name, ignore_missing=False)
            return Stack(str(self._api.call(find).id), name)
        except api.ERRORS as error:
            if api.http_status(error) in (None, 401):
                raise  # it is not this stack that is refused, or nobody was asked
            kind = classify(str(error))
            if kind is fleet_model.ErrorClass.STACK_FAILED:
                # Heat has not looked at the pair's hosts yet.
                kind = fleet_model.ErrorClass.API
            raise StackError(kind, f"Heat refused the stack: {api.text_of(error)}") from error

    def _post(self, request: Mapping[str, object]) -> str:
        """Make a stack and return its id; create_stack() would not send tags as text."""
        answer = self._heat.post("/stacks", json=request)
        sdk_exceptions.raise_from_response(answer)
        return str(answer.json()["stack"]["id"])

    def status(self, stack: Stack) -> tuple[str, str]:
        shown = self._api.call(lambda: self._heat.get_stack(stack.id, resolve_outputs=False))
        # openstacksdk makes a stack without anything of an answer that is no JSON, such as a
        # proxy's page.
        return str(shown.status or "unknown"), one_line(shown.status_reason or "", 600)

    def outputs(self, stack: Stack) -> dict[str, object]:
        shown = self._api.call(lambda: self._heat.get_stack(stack.id))
        return {entry["output_key"]: entry.get("output_value") for entry in shown.outputs or ()}

    def servers(self, stack: Stack) -> dict[str, str]:
        known = self._api.call(lambda: list(self._heat.resources(_sdk(stack))))
        servers = {}
        for resource in known:
            if resource.name in ("client", "server") and resource.physical_resource_id:
                servers[resource.name] = resource.physical_resource_id
        return servers

    def failure(self, stack: Stack, reason: str) -> StackError:
        """Return why a stack failed: the reasons of its resources, and the error's class."""
        events = self._api.call(lambda: list(self._heat.stack_events(_sdk(stack))))
        events.sort(key=lambda event: str(event.event_time))
        said = []
        for event in events:
            failed = str(event.resource_status).endswith("_FAILED")
            if failed and event.logical_resource_id != stack.name:
                said.append(f"{event.logical_resource_id}: {event.resource_status_reason}")
        said = [text for text in said if not _is_cancelled(text)]
        if not said:
            said = [reason]
        kind = fleet_model.ErrorClass.STACK_FAILED
        for text in said:
            kind = classify(text)
            if kind is not fleet_model.ErrorClass.STACK_FAILED:
                break
        return StackError(kind, one_line("; ".join(dict.fromkeys(said)), 900))

    def owned(self, run_id: str) -> list[Stack]:
        """Return the stacks that a run left: known by tag and name, both of which we gave."""
        prefix = f"{fleet_model.NAME_PREFIX}{run_id}-"
        return [stack for stack in self.all() if stack.name.startswith(prefix)]

    def all(self) -> list[Stack]:
        """Return the stacks of all runs."""
        found = []
        for stack in self._api.call(lambda: list(self._heat.stacks())):
            tags = [str(tag) for tag in stack.tags or ()]
            # A stack that is gone is listed for a moment: Heat sets the status before it removes
            # the row.
            if TAG not in tags or stack.status == "DELETE_COMPLETE":
                continue
            token = ""
            owners = [tag for tag in tags if tag.startswith(_OWNER)]
            if owners:
                token = owners[0].removeprefix(_OWNER)
            found.append(Stack(str(stack.id), str(stack.name), token))
        return found

    def delete(self, stacks: Iterable[Stack]) -> list[str]:
        """Remove stacks, wait until they are gone, return a line for each that is not."""
        begun = time.monotonic()
        due = dict.fromkeys(stacks, begun)  # stack -> when the next attempt may be made
        problems: dict[Stack, str] = {}
        while due and time.monotonic() - begun < DELETE_S:
            for stack in list(due):
                late = time.monotonic() - begun
                if late >= DELETE_S:  # a Heat that does not answer holds up each call
                    break
                try:
                    due[stack] = self._push(stack, due[stack], problems)
                except sdk_exceptions.NotFoundException:
                    if stack.id or late >= APPEAR_S:
                        del due[stack]
                        problems.pop(stack, None)
                except api.ERRORS as error:
                    problems[stack] = api.text_of(error)
                    if api.http_status(error) in (401, 403):
                        del due[stack]
            if due:
                time.sleep(POLL_S)
        left = []
        for stack in {**due, **problems}:
            problem = problems.get(stack, "no reason")
            if stack in due:
                problem = f"still there after {DELETE_S:.0f} s: {problem}"
            left.append(f"stack {stack.name}: {problem}")
        return left

    def _push(self, stack: Stack, due: float, problems: dict[Stack, str]) -> float:
        """Delete a stack from ``due`` on; return when the next attempt may be made.

        :raises openstack.exceptions.NotFoundException: it is gone.
        """
        shown = self._api.call(
            lambda: self._heat.get_stack(stack.id or stack.name, resolve_outputs=False), 0
        )
        if shown.status == "DELETE_COMPLETE":
            raise sdk_exceptions.NotFoundException
        if shown.status == "DELETE_FAILED":
            problems[stack] = one_line(shown.status_reason or "", 300)
        if shown.status in (None, "DELETE_IN_PROGRESS") or time.monotonic() < due:
            return due
        self._api.call(
            lambda: self._heat.delete_stack(str(shown.id), ignore_missing=True), 0, changes=True
        )
        return time.monotonic() + RETRY_S


def _sdk(stack: Stack) -> sdk_stack.Stack:
    """Return a stack as openstacksdk takes it without asking for it first."""
    return sdk_stack.Stack.new(id=stack.id, name=stack.name)


def _is_cancelled(reason: str) -> bool:
    """Return whether a resource failed only because Heat cancelled it, which explains nothing."""
    if _WAIT_CONDITION(reason):
        return False
    return "aborted" in reason or "Stack CREATE cancelled" in reason


def classify(reason: str) -> fleet_model.ErrorClass:
    """Return the class of a reason; what a guest wrote into one decides only about the guest."""
    if said := _WAIT_CONDITION(reason):
        if said[1] == "Timeout" or said[2].startswith(_SILENT_PEER):
            return fleet_model.ErrorClass.NO_SIGNAL
        return fleet_model.ErrorClass.BENCHMARK_FAILED
    if "no valid host" in reason.lower():
        return fleet_model.ErrorClass.NO_HOST
    if _QUOTA(reason):
        return fleet_model.ErrorClass.QUOTA
    return fleet_model.ErrorClass.STACK_FAILED
