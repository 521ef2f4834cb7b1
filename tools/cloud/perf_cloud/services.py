# SPDX-License-Identifier: Apache-2.0
"""Every process of the cloud: how it starts and how to tell that it answers."""

import dataclasses
import os
import pathlib
import socket
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Final

from perf_cloud import layout, namespaces, processes

_HERE: Final = pathlib.Path(__file__).resolve().parent
_ETC: Final = layout.INSIDE / "etc"
MYSQL_SOCKET: Final = "/run/mysqld.sock"


@dataclasses.dataclass(frozen=True)
class Service:
    """One long-running process.

    :ivar needs: services, or steps of the first start, that must be through before it starts.
    :ivar prepare: called before it starts.
    :ivar ready: whether it answers; asked again and again.
    :ivar configure: called once when it does.
    """

    name: str
    argv: tuple[str, ...]
    needs: tuple[str, ...] = ()
    ready: Callable[[], bool] = lambda: True
    prepare: Callable[[], None] = lambda: None
    configure: Callable[[], None] = lambda: None
    environment: Mapping[str, str] = dataclasses.field(default_factory=dict)
    host: layout.Host = layout.CONTROLLER


class Catalogue:
    """The services of one cloud, made for code that runs in the controller's namespaces.

    :param venv: where the OpenStack services are installed.
    :param hosts: number of compute hosts.
    """

    def __init__(self, cloud: layout.Cloud, venv: pathlib.Path, hosts: int) -> None:
        self._cloud = cloud
        self._venv = venv
        self._hosts = [layout.Host(number) for number in layout.HOSTS[:hosts]]

    def all(self) -> list[Service]:
        """Return every service, those that others need first."""
        found = [self._mariadb(), self._rabbitmq()]
        for host in self._hosts:
            found += [
                self._ovsdb(host),
                self._vswitchd(host),
                self._tap_guard(host),
                self._libvirtd(host),
            ]
        found += [self._ovn_database("nb"), self._ovn_database("sb"), self._northd()]
        found += [self._ovn_controller(host) for host in self._hosts]
        found += self._openstack()
        found += [self._nova_compute(host) for host in self._hosts]
        return found

    def command(self, host: layout.Host, *argv: str) -> list[str]:
        """Return a command line that runs in ``host``."""
        return [*([] if host == layout.CONTROLLER else namespaces.enter(self._cloud, host)), *argv]

    def environment(self) -> dict[str, str]:
        """Return what every service is started with: nothing of the environment of who called us."""
        return {
            "PATH": f"{self._venv}/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            "HOME": "/root",
            "LANG": "C.UTF-8",
            "TMPDIR": "/run",  # private and gone with the cloud, which files of Neutron and Heat would outlive
            "PYTHONWARNINGS": "ignore",
            "OS_KEYSTONE_CONFIG_DIR": f"{_ETC}/keystone",
            "OS_PLACEMENT_CONFIG_DIR": f"{_ETC}/placement",
            "OS_GLANCE_CONFIG_DIR": f"{_ETC}/glance",
            "OS_NEUTRON_CONFIG_DIR": f"{_ETC}/neutron",
            "OS_NEUTRON_CONFIG_FILES": "neutron.conf;ml2_conf.ini",
            "OS_NOVA_CONFIG_DIR": f"{_ETC}/nova",
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;nova-database.conf",
        }

    # ---- database and messages ----

    def _mariadb(self) -> Service:
        data = layout.DATA / "mysql"

        def prepare() -> None:
            if not (data / "mysql").exists():
                argv = ["mariadb-install-db", "--no-defaults", "--user=root", f"--datadir={data}"]
                _check(argv + ["--auth-root-authentication-method=normal", "--skip-test-db"])

        options = [
            "--no-defaults", "--user=root", f"--datadir={data}", f"--socket={MYSQL_SOCKET}", "--skip-networking",
            "--skip-log-bin", "--innodb-buffer-pool-size=64M", "--innodb-log-file-size=48M",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-doublewrite=0", "--innodb-flush-method=nosync",
            "--innodb-fast-shutdown=2", "--innodb-use-native-aio=0", "--performance-schema=off",
            "--max-connections=300", "--aria-pagecache-buffer-size=8M", "--key-buffer-size=1M",
            "--character-set-server=utf8mb4",
        ]  # fmt: skip
        return Service(
            "mariadb",
            ("mariadbd", *options),
            prepare=prepare,
            ready=lambda: _listens(MYSQL_SOCKET),
        )

    def _rabbitmq(self) -> Service:
        directory = pathlib.Path("/run/rabbitmq")

        def prepare() -> None:
            directory.mkdir(exist_ok=True)
            (directory / "enabled_plugins").write_text("[].\n")

        environment = {
            "HOME": str(directory),
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": "rabbit@localhost",
            "RABBITMQ_MNESIA_BASE": str(directory),
            "RABBITMQ_LOG_BASE": str(directory),
            "RABBITMQ_CONFIG_FILE": f"{_ETC}/rabbitmq",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{directory}/enabled_plugins",
            "RABBITMQ_DIST_PORT": "25672",
            # Else its scheduler is bound to CPU 0, and a plan leaves that CPU to it.
            "RABBITMQ_SCHEDULER_BIND_TYPE": "u",
            # Schedulers that spin while they wait would take a CPU from the guests.
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none",
        }
        return Service(
            "rabbitmq",
            ("/usr/lib/rabbitmq/bin/rabbitmq-server",),
            prepare=prepare,
            ready=lambda: _listens((layout.CONTROLLER.address, 5672)),
            environment=environment,
        )

    # ---- network ----

    def _ovsdb(self, host: layout.Host) -> Service:
        database = layout.DATA / "openvswitch.db"
        schema = "/usr/share/openvswitch/vswitch.ovsschema"
        external = {
            "system-id": host.name,
            "hostname": host.name,
            "ovn-remote": f"tcp:{layout.CONTROLLER.address}:6642",
            "ovn-encap-type": "geneve",
            "ovn-encap-ip": host.tunnel_address,
            "ovn-bridge": "br-int",
            "ovn-bridge-datapath-type": "netdev",
            "ovn-bridge-mappings": "physnet1:br-ex",
        }
        if host == layout.CONTROLLER:
            external["ovn-cms-options"] = "enable-chassis-as-gw"
        pairs = [f"external_ids:{key}={value}" for key, value in external.items()]
        setting = self.command(
            host, "ovs-vsctl", "--timeout=20", "--no-wait", "set", "Open_vSwitch", ".", *pairs
        )
        init = self.command(host, "ovs-vsctl", "--timeout=1", "--no-wait", "init")

        def prepare() -> None:
            if not _succeeds(self.command(host, "test", "-e", str(database))):
                _check(self.command(host, "ovsdb-tool", "create", str(database), schema))

        return Service(
            f"{host.name}-ovsdb",
            (
                "ovsdb-server",
                str(database),
                "--remote=punix:/run/openvswitch/db.sock",
                "--pidfile",
                *_CONSOLE,
            ),
            host=host,
            prepare=prepare,
            ready=lambda: _succeeds(init),
            configure=lambda: _check(setting),
        )

    def _vswitchd(self, host: layout.Host) -> Service:
        pid_file = "/run/openvswitch/ovs-vswitchd.pid"
        return Service(
            f"{host.name}-vswitchd",
            # --monitor: it is started again when it aborts.
            (
                "ovs-vswitchd",
                "unix:/run/openvswitch/db.sock",
                f"--pidfile={pid_file}",
                "--monitor",
                *_CONSOLE,
            ),
            needs=(f"{host.name}-ovsdb",),
            host=host,
            configure=lambda: _check(
                self.command(host, str(_HERE / "host-network"), str(host.number))
            ),
        )

    def _tap_guard(self, host: layout.Host) -> Service:
        needs = (f"{host.name}-vswitchd",)
        return Service(
            f"{host.name}-tap-guard", (str(_HERE / "tap-guard"),), needs=needs, host=host
        )

    def _ovn_database(self, kind: str) -> Service:
        file = layout.DATA / f"ovn-{kind}.db"
        remotes = [f"--remote=punix:/run/ovn/ovn{kind}_db.sock"]
        if kind == "sb":
            remotes.append(f"--remote=ptcp:6642:{layout.CONTROLLER.address}")

        def prepare() -> None:
            if not file.exists():
                _check(["ovsdb-tool", "create", str(file), f"/usr/share/ovn/ovn-{kind}.ovsschema"])

        return Service(
            f"ovn-{kind}",
            (
                "ovsdb-server",
                str(file),
                *remotes,
                f"--unixctl=/run/ovn/ovn{kind}_db.ctl",
                *_CONSOLE,
            ),
            prepare=prepare,
            ready=lambda: _listens(f"/run/ovn/ovn{kind}_db.sock"),
            configure=lambda: _check([f"ovn-{kind}ctl", "--timeout=20", "init"]),
        )

    def _northd(self) -> Service:
        return Service("ovn-northd", ("ovn-northd", *_CONSOLE), needs=("ovn-nb", "ovn-sb"))

    def _ovn_controller(self, host: layout.Host) -> Service:
        needs = ("ovn-sb", f"{host.name}-ovsdb", f"{host.name}-vswitchd")
        return Service(
            f"{host.name}-ovn-controller", ("ovn-controller", *_CONSOLE), needs=needs, host=host
        )

    # ---- hypervisor ----

    def _libvirtd(self, host: layout.Host) -> Service:
        answer = self.command(host, "virsh", "--quiet", "--connect=qemu:///system", "version")
        return Service(
            f"{host.name}-libvirtd",
            ("libvirtd", "--listen", "--config=/etc/libvirt/libvirtd.conf"),
            host=host,
            ready=lambda: _succeeds(answer),
        )

    def _nova_compute(self, host: layout.Host) -> Service:
        needs = [f"{host.name}-{name}" for name in ("libvirtd", "vswitchd", "ovn-controller")]
        # Without a conductor it would sleep for ten seconds before it asks again.
        needs += ["nova-conductor", "placement", "neutron", "glance"]
        binary = f"{self._venv}/bin/nova-compute"
        path = f"{_HERE.parent}/shims:{self.environment()['PATH']}"
        return Service(
            f"{host.name}-nova-compute",
            (
                binary,
                "--config-file",
                f"{_ETC}/nova/nova.conf",
                "--config-file",
                f"{layout.OWN}/nova-compute.conf",
            ),
            needs=tuple(needs),
            host=host,
            environment={"PATH": path},
        )

    # ---- OpenStack on the controller ----

    def _openstack(self) -> list[Service]:
        identity = ("mariadb", "identity")
        return [
            self._web("keystone", 5000, "keystone.wsgi.api", 8, ("mariadb", "schema of keystone")),
            self._web("placement", 8778, "placement.wsgi.api", 4, (*identity, "schema of placement")),
            self._web("glance", 9292, "glance.wsgi.api", 4, (*identity, "schema of glance")),
            self._web("neutron", 9696, "neutron.wsgi.api", 8, (*identity, "schema of neutron", "ovn-northd")),
            self._nova("nova-conductor", "Starting conductor node"),
            self._nova("nova-scheduler", "Starting scheduler node"),
            self._web("nova-api", 8774, "nova.wsgi.osapi_compute", 8, (*identity, "rabbitmq", "schema of nova")),
            self._web(
                "heat-api", 8004, "heat.wsgi.api", 4, (*identity, "rabbitmq", "schema of heat"),
                f"--config-file {_ETC}/heat/heat.conf",
            ),
            Service(
                "heat-engine",
                (f"{self._venv}/bin/heat-engine", "--config-file", f"{_ETC}/heat/heat.conf"),
                needs=(*identity, "rabbitmq", "schema of heat"),
            ),
        ]  # fmt: skip

    def _web(
        self,
        name: str,
        port: int,
        module: str,
        threads: int,
        needs: tuple[str, ...],
        arguments: str = "",
    ) -> Service:
        options = [
            "--plugin", "python3",
            "--http-socket", f"0.0.0.0:{port}", "--module", f"{module}:application", "--processes", "1",
            "--threads", str(threads), "--enable-threads", "--lazy-apps", "--need-app", "--master",
            "--die-on-term", "--buffer-size", "65535", "--venv", str(self._venv), "--disable-logging",
            # Clients that keep a connection alive would lose requests on it.
            "--add-header", "Connection: close", "--post-buffering", "65536",
            "--procname-prefix-spaced", name, *(["--pyargv", arguments] if arguments else []),
        ]  # fmt: skip
        return Service(
            name,
            ("uwsgi-core", *options),
            needs=needs,
            ready=lambda: _serves(f"http://{layout.CONTROLLER.address}:{port}/"),
        )

    def _nova(self, name: str, says: str) -> Service:
        files = (
            "--config-file",
            f"{_ETC}/nova/nova.conf",
            "--config-file",
            f"{_ETC}/nova/nova-database.conf",
        )
        return Service(
            name,
            (f"{self._venv}/bin/{name}", *files),
            needs=("mariadb", "rabbitmq", "identity", "schema of nova"),
            ready=lambda: says.encode() in self._cloud.log(name).read_bytes(),
        )


_CONSOLE: Final = ("-vconsole:info", "-vsyslog:off")


def start(catalogue: Catalogue, cloud: layout.Cloud, service: Service) -> None:
    """Start one service; does not wait for its answer."""
    service.prepare()
    log = cloud.log(service.name)
    if log.exists():
        os.replace(log, log.with_suffix(".log.1"))
    environment = {
        **catalogue.environment(),
        layout.VARIABLE: str(layout.INSIDE),
        **service.environment,
    }
    processes.start(
        cloud, service.name, catalogue.command(service.host, *service.argv), environment
    )


def _check(argv: list[str]) -> None:
    """Run a command; its error message becomes ours."""
    result = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if result.returncode:
        said = (result.stderr or result.stdout).strip().splitlines() or ["no message"]
        raise layout.CloudError(f"{' '.join(argv[:8])}: exit code {result.returncode}: {said[-1]}")


def _succeeds(argv: list[str]) -> bool:
    quiet = subprocess.DEVNULL
    return subprocess.run(argv, stdin=quiet, stdout=quiet, stderr=quiet).returncode == 0


def _listens(address: str | tuple[str, int]) -> bool:
    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
    with socket.socket(family) as connection:
        connection.settimeout(2)
        return connection.connect_ex(address) == 0


def _serves(url: str) -> bool:
    try:
        urllib.request.urlopen(url, timeout=10).close()
    except urllib.error.HTTPError as error:
        return error.code < 500
    except (OSError, ValueError):
        return False
    return True
