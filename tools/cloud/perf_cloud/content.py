# SPDX-License-Identifier: Apache-2.0
"""What a new cloud is filled with: schemas, catalogue, users, the provider network and the guest image."""

import pathlib
import subprocess
from collections.abc import Callable
from typing import Any, Final

from perf_cloud import layout, processes, services

IMAGE: Final = "perf-guest"
NETWORK: Final = "provider"

_ETC: Final = layout.INSIDE / "etc"
_KEYSTONE: Final = layout.DATA / "keystone"
_DATABASES: Final = (
    "keystone",
    "placement",
    "glance",
    "neutron",
    "nova",
    "nova_api",
    "nova_cell0",
    "heat",
)


def create_databases() -> None:
    """Create the empty databases; those that exist stay."""
    statements = "".join(
        f"create database if not exists {name} character set utf8mb4;" for name in _DATABASES
    )
    argv = ["mariadb", "--no-defaults", "--user=root", f"--socket={services.MYSQL_SOCKET}"]
    subprocess.run(argv, input=statements, text=True, check=True)


class Schemas:
    """Database schemas, each made by its project's own tool.

    :param environment: for these tools.
    """

    def __init__(
        self, cloud: layout.Cloud, venv: pathlib.Path, environment: dict[str, str]
    ) -> None:
        self._cloud = cloud
        self._venv = venv
        self._environment = environment

    def all(self) -> dict[str, Callable[[], None]]:
        """Return a function for each project; the longest work stands first."""
        return {
            "nova": self._nova,
            "neutron": self._neutron,
            "keystone": self._keystone,
            "placement": lambda: self._run(
                "placement", "placement-manage", "placement.conf", ["db", "sync"]
            ),
            "glance": lambda: self._run("glance", "glance-manage", "glance-api.conf", ["db_sync"]),
            "heat": lambda: self._run("heat", "heat-manage", "heat.conf", ["db_sync"]),
        }

    def _nova(self) -> None:
        for arguments in (
            ["api_db", "sync"],
            ["cell_v2", "map_cell0"],
            ["cell_v2", "create_cell", "--name", "cell1"],
            ["db", "sync"],
        ):
            files = ["--config-file", f"{_ETC}/nova/nova-database.conf", *arguments]
            self._run("nova", "nova-manage", "nova.conf", files)

    def _neutron(self) -> None:
        arguments = ["--config-file", f"{_ETC}/neutron/ml2_conf.ini", "upgrade", "heads"]
        self._run("neutron", "neutron-db-manage", "neutron.conf", arguments)

    def _keystone(self) -> None:
        _KEYSTONE.mkdir(exist_ok=True)
        owner = ["--keystone-user", "root", "--keystone-group", "root"]
        url = f"http://{layout.CONTROLLER.address}:5000/v3"
        urls = [
            f for kind in ("public", "internal", "admin") for f in (f"--bootstrap-{kind}-url", url)
        ]
        for arguments in (
            ["db_sync"],
            ["fernet_setup", *owner],
            ["credential_setup", *owner],
            [
                "bootstrap",
                "--bootstrap-password",
                "adminpw",
                "--bootstrap-region-id",
                layout.REGION,
                *urls,
            ],
        ):
            self._run("keystone", "keystone-manage", "keystone.conf", arguments)

    def _run(self, project: str, program: str, configuration: str, arguments: list[str]) -> None:
        name = f"schema-{project}"
        argv = [
            f"{self._venv}/bin/{program}",
            "--config-file",
            f"{_ETC}/{project}/{configuration}",
            *arguments,
        ]
        with open(self._cloud.log(name), "ab") as log:
            code = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self._environment
            ).returncode
        if code:
            end = processes.last_lines(self._cloud, name)
            raise layout.CloudError(f"{program} ends with {code}; log/{name}.log ends with: {end}")


def connection() -> Any:
    """Return an SDK connection as the administrator."""
    import openstack  # takes a second, and a start from a snapshot needs none

    return openstack.connect(
        load_yaml_config=False,
        load_envvars=False,
        auth_url=f"http://{layout.CONTROLLER.address}:5000/v3",
        username="admin",
        password="adminpw",
        project_name="admin",
        user_domain_name="Default",
        project_domain_name="Default",
        region_name=layout.REGION,
    )


def create_identity(cloud: Any) -> None:
    """Create the roles, the user of the services, Heat's domain and the catalogue."""
    identity = cloud.identity
    roles = {role.name: role for role in identity.roles()}
    for name in ("service", "heat_stack_user", "heat_stack_owner"):
        roles.setdefault(name, None)
        roles[name] = roles[name] or identity.create_role(name=name)
    project = identity.create_project(name="service", domain_id="default")
    user = identity.create_user(
        name="svc", domain_id="default", password="svcpw", default_project_id=project.id
    )
    for name in ("admin", "service"):
        identity.assign_project_role_to_user(project, user, roles[name])
    identity.assign_project_role_to_user(
        cloud.current_project_id, cloud.current_user_id, roles["heat_stack_owner"]
    )
    domain = identity.create_domain(name="heat")
    admin = identity.create_user(name="heat_domain_admin", domain_id=domain.id, password="heatpw")
    identity.assign_domain_role_to_user(domain, admin, roles["admin"])
    here = f"http://{layout.CONTROLLER.address}"
    for kind, name, url in (
        ("placement", "placement", f"{here}:8778"),
        ("image", "glance", f"{here}:9292"),
        ("network", "neutron", f"{here}:9696"),
        ("compute", "nova", f"{here}:8774/v2.1"),
        ("orchestration", "heat", f"{here}:8004/v1/%(tenant_id)s"),
    ):
        service = identity.create_service(type=kind, name=name)
        for interface in ("public", "internal"):
            identity.create_endpoint(
                service_id=service.id, interface=interface, region_id=layout.REGION, url=url
            )


def create_network(cloud: Any) -> None:
    """Create the provider network, which the controller is part of, with addresses for guests."""
    network = cloud.network.create_network(
        name=NETWORK,
        is_shared=True,
        is_router_external=True,
        is_port_security_enabled=False,
        provider_network_type="flat",
        provider_physical_network="physnet1",
    )
    base = layout.PROVIDER_CIDR.rpartition(".")[0]
    cloud.network.create_subnet(
        name=NETWORK,
        network_id=network.id,
        ip_version=4,
        cidr=layout.PROVIDER_CIDR,
        gateway_ip=layout.PROVIDER_ADDRESS,
        allocation_pools=[{"start": f"{base}.10", "end": f"{base}.200"}],
    )


def upload_image(directory: pathlib.Path, environment: dict[str, str]) -> None:
    """Upload the guest image that ``tools/image/build --cloud`` made in ``directory``."""
    tool = pathlib.Path(__file__).resolve().parents[2] / "image" / "upload"
    clouds = {"OS_CLIENT_CONFIG_FILE": f"{_ETC}/clouds.yaml", "OS_CLOUD": layout.CLOUD_NAME}
    argv = ["python", str(tool), "--directory", str(directory), IMAGE]
    result = subprocess.run(argv, env={**environment, **clouds}, capture_output=True, text=True)
    if result.returncode:
        raise layout.CloudError(
            (result.stderr.strip() or "image/upload: no message").splitlines()[-1]
        )
