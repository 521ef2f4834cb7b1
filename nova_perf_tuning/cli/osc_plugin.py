"""``openstack perf …``: what python-openstackclient needs to know of this package to run its commands.

Found by the entry point ``openstack.cli.extension``; the commands are those of ``openstack.perf.v1``. Every start
of ``openstack``, whatever its command, imports this module: keep it light.
"""

from __future__ import annotations

import argparse
import os
from typing import Any

API_NAME = "perf"
API_VERSION_OPTION = "os_perf_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def make_client(instance: Any) -> Any:
    """Return what commands get as ``client_manager.perf``: the connection of openstacksdk.

    :param instance: osc-lib's ``ClientManager``.
    """
    return instance.sdk_connection


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add the option that every plug-in has: which version of its commands is wanted."""
    parser.add_argument(
        "--os-perf-api-version",
        metavar="<perf-api-version>",
        default=os.environ.get("OS_PERF_API_VERSION", DEFAULT_API_VERSION),
        help=f"version of the perf commands, default={DEFAULT_API_VERSION} (Env: OS_PERF_API_VERSION)",
    )
    return parser
