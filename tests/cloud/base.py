# SPDX-License-Identifier: Apache-2.0
"""The cloud of tools/cloud for tests: its APIs through openstacksdk, its hosts through tools/cloud/run.

The cloud is the one of ``$NOVA_PERF_CLOUD`` or the user's own; ``tools/test.sh cloud`` starts one for the run.
A test without a cloud fails. What a test makes in it, it removes.
"""

import contextlib
import json
import pathlib
import subprocess
import time
import uuid
from collections.abc import Callable
from typing import Any

import openstack
from lxml import etree

from tests.support import netns, testcase

TOP = pathlib.Path(__file__).resolve().parents[2]
IMAGE = "perf-guest"
NETWORK = "provider"


def tool(name: str, *arguments: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run one of the cloud's commands."""
    argv = [str(TOP / "tools" / "cloud" / name), *arguments]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=1800)
    if check and done.returncode:
        raise AssertionError(
            f"{name} {' '.join(arguments)}: {done.returncode}: {done.stderr.strip()}"
        )
    return done


def on_host(host: str, *argv: str) -> str:
    """Return the output of a command in ``host1`` or ``host2``."""
    return tool("run", "--host", host.removeprefix("host"), "--", *argv).stdout


def status() -> dict[str, Any]:
    """Return what ``tools/cloud/status`` knows; fails when no cloud runs."""
    return json.loads(tool("status", "-f", "json", check=False).stdout or "{}")


def wait_for(what: str, condition: Callable[[], Any], seconds: float = 300) -> Any:
    """Return what ``condition`` returns as soon as that is true; a failure after ``seconds``."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"{what}: not within {seconds} s")
        time.sleep(0.5)
    return result


class CloudTest(testcase.TestCase):
    """A test in the controller's network, with ``self.cloud`` as the administrator."""

    def setUp(self) -> None:
        super().setUp()
        self.state = pathlib.Path(tool_state())
        stack = contextlib.ExitStack()
        self.addCleanup(stack.close)
        init = (self.state / "run" / "host1-init.pid").read_text().split()[0]
        stack.enter_context(netns.inside(f"/proc/{init}/ns/net"))
        self.cloud = self.connect()
        self.addCleanup(self.cloud.close)
        self.cloud.compute.default_microversion = "2.95"
        self.prefix = f"test-{uuid.uuid4().hex[:8]}"

    def connect(self) -> openstack.connection.Connection:
        files = [str(self.state / "etc" / "clouds.yaml")]
        config = openstack.config.OpenStackConfig(config_files=files, load_envvars=False)
        return openstack.connection.Connection(config=config.get_one("perf"))

    def assert_soon(self, expected: object, inventory: Callable[[], object]) -> None:
        """Hold what there is against ``expected``, for at most 30 s until it is so.

        Heat says DELETE_COMPLETE first and takes the stack off its list then (Stack.mark_complete, purge_db).
        """
        deadline = time.monotonic() + 30
        while (found := inventory()) != expected and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertEqual(expected, found)

    def make_member(self) -> Any:
        """Make a project and a user of it without an administrator's rights, both named ``self.prefix``.

        :returns: the project; the user's password is ``secret``.
        """
        identity = self.cloud.identity
        project = identity.create_project(name=self.prefix)
        self.addCleanup(identity.delete_project, project)
        user = identity.create_user(
            name=self.prefix, password="secret", default_project_id=project.id
        )
        self.addCleanup(identity.delete_user, user)
        identity.assign_project_role_to_user(project, user, identity.find_role("member"))
        return project

    def flavor(self, specs: dict[str, str], vcpus: int = 2) -> Any:
        """Create a flavor with extra specs for the time of the test."""
        flavor = self.cloud.compute.create_flavor(
            name=f"{self.prefix}-{uuid.uuid4().hex[:4]}", ram=192, vcpus=vcpus, disk=1
        )
        self.addCleanup(self.cloud.compute.delete_flavor, flavor)
        if specs:
            self.cloud.compute.create_flavor_extra_specs(flavor, specs)
        return flavor

    def boot(self, flavor: Any, host: str | None = None, *, expect: str = "ACTIVE") -> Any:
        """Start a guest, on ``host`` if that is given, and return it once it has the status expected."""
        return self.settled(self.begin_boot(flavor, host), expect)

    def begin_boot(self, flavor: Any, host: str | None = None) -> Any:
        """Ask for a guest, on ``host`` if that is given, and return it at once; :meth:`settled` waits for it."""
        where = {"availability_zone": f"nova:{host}"} if host else {}
        server = self.cloud.compute.create_server(
            name=self.prefix,
            flavor_id=flavor.id,
            image_id=self.cloud.image.find_image(IMAGE).id,
            networks=[{"uuid": self.cloud.network.find_network(NETWORK).id}],
            **where,
        )
        self.addCleanup(self._delete, server)
        return server

    def settled(self, server: Any, expect: str, host: str | None = None) -> Any:
        """Return a guest once nothing is being done to it and it is as expected; a failure when it never is."""

        def done() -> Any:
            now = self.cloud.compute.get_server(server.id)
            there = now.status == expect and host in (None, now.compute_host)
            return now if now.task_state is None and (there or now.status == "ERROR") else None

        now = wait_for(f"{expect} on {host or 'any host'}", done)
        if now.status != expect:
            raise AssertionError(f"{now.status}, not {expect}: {(now.fault or {}).get('message')}")
        return now

    def _delete(self, server: Any) -> None:
        self.cloud.compute.delete_server(server, force=True)
        self.cloud.compute.wait_for_delete(server, interval=0.5, wait=120)

    def domain(self, server: Any) -> etree._Element:
        """Return the XML of a guest as libvirt has it on the host where Nova says it runs."""
        server = self.cloud.compute.get_server(server.id)
        return etree.fromstring(
            on_host(server.compute_host, "virsh", "dumpxml", server.instance_name)
        )


def tool_state() -> str:
    """Return the state directory of the cloud; fails when no cloud runs."""
    known = status()
    if not known:
        raise AssertionError(
            "no cloud runs; start one with tools/cloud/up, or run tools/test.sh cloud"
        )
    return known["state"]
