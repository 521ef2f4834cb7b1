# SPDX-License-Identifier: Apache-2.0
"""Configuration files, rendered from ``templates``."""

import os
import pathlib
import string
from typing import Final

from perf_cloud import layout

_TEMPLATES: Final = pathlib.Path(__file__).resolve().parent / "templates"

_FILES: Final = {
    "clouds.yaml": "clouds.yaml",
    "rabbitmq.conf": "rabbitmq.conf",
    "keystone/keystone.conf": "keystone.conf",
    "placement/placement.conf": "placement.conf",
    "glance/glance-api.conf": "glance-api.conf",
    "neutron/neutron.conf": "neutron.conf",
    "neutron/ml2_conf.ini": "ml2_conf.ini",
    "nova/nova.conf": "nova.conf",
    "nova/nova-database.conf": "nova-database.conf",
    "heat/heat.conf": "heat.conf",
}
_OF_A_HOST: Final = {
    "nova-compute.conf": "nova-compute.conf",
    "root/etc/libvirt/qemu.conf": "qemu.conf",
    "root/etc/libvirt/libvirtd.conf": "libvirtd.conf",
}


def write(cloud: layout.Cloud, venv: pathlib.Path) -> None:
    """Write every configuration file of a cloud whose services are in ``venv``."""
    values = _values(venv)
    for file, template in _FILES.items():
        _write(cloud.configuration / file, template, values)
    # Nova's API looks for it beside nova.conf, whatever that says.
    paste = cloud.configuration / "nova" / "api-paste.ini"
    paste.unlink(missing_ok=True)
    paste.symlink_to(venv / "etc" / "nova" / "api-paste.ini")
    for host in map(layout.Host, layout.HOSTS):
        own = {"address": host.address, "uuid": host.uuid}
        for file, template in _OF_A_HOST.items():
            _write(cloud.directory / host.name / file, template, {**values, **own})


def _values(venv: pathlib.Path) -> dict[str, str]:
    configuration = layout.INSIDE / "etc" / "nova" / "nova.conf"
    helper = f"{venv}/bin/privsep-helper --config-file {configuration} --config-file {layout.OWN}/nova-compute.conf"
    values = {
        "venv": str(venv),
        "controller": layout.CONTROLLER.address,
        "provider": layout.PROVIDER_ADDRESS,
        "region": layout.REGION,
        "cpus": f"0-{(os.cpu_count() or 1) - 1}",
        "queue": f"rabbit://guest:guest@{layout.CONTROLLER.address}:5672/",
        "sql": "mysql+pymysql://root@localhost",
        "socket": "unix_socket=/run/mysqld.sock&charset=utf8mb4",
        "privsep": helper,
    }
    for fragment in ("credentials", "authtoken", "database"):
        values[fragment] = _render(f"{fragment}.fragment", values).rstrip("\n")
    return values


def _render(template: str, values: dict[str, str]) -> str:
    return string.Template((_TEMPLATES / template).read_text()).substitute(values)


def _write(file: pathlib.Path, template: str, values: dict[str, str]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(_render(template, values))
