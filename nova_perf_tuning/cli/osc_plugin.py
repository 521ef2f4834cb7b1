# SPDX-License-Identifier: Apache-2.0
"""``openstack perf …``: what python-openstackclient needs to know of this package to run its commands.

Found by the entry point ``openstack.cli.extension``; the commands are those of ``openstack.perf.v1``. Every start
of ``openstack``, whatever its command, imports this module: keep it light.
"""

import argparse

API_NAME = "perf"
API_VERSION_OPTION = "os_perf_api_version"
API_VERSIONS = ("1",)
DEFAULT_API_VERSION = "1"


def build_option_parser(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Add no option: there is one version of the commands."""
    return parser
