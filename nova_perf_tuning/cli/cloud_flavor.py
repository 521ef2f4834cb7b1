# SPDX-License-Identifier: Apache-2.0
"""What several ``openstack perf flavor`` commands and ``image check`` share."""

import argparse
import operator
from collections.abc import Sequence

from openstack.compute.v2 import flavor as sdk_flavor
from osc_lib.cli import format_columns

from nova_perf_tuning import errors, rules
from nova_perf_tuning.cli import cloud_command
from nova_perf_tuning.cli.options import flavor as flavor_options


def add_check_options(parser: argparse.ArgumentParser) -> None:
    flavor_options.add_profile_dir(parser)
    parser.add_argument(
        "--fail-on",
        choices=("error", "warning"),
        default="warning",
        help="the least level for exit code 1 (default: warning)",
    )


def findings_table(
    command: cloud_command.CloudCommand, what: str, findings: Sequence[tuple[str, rules.Finding]], fail_on: str
) -> cloud_command.Rows:
    """Return findings as rows, and let the command end with 1 when one reaches ``fail_on``."""
    if any(finding.level.rank >= rules.Level(fail_on).rank for _name, finding in findings):
        command.exit_code = errors.ExitCode.FAIL
    texts = operator.attrgetter("why", "remedy", "source")
    return (what, "Level", "Rule", "Found", "Why", "Remedy", "Source"), [
        (name, finding.level.value, finding.rule, finding.evidence[0].value, *texts(finding))
        for name, finding in findings
    ]


def shown(flavor: sdk_flavor.Flavor) -> cloud_command.Shown:
    specs = format_columns.DictColumn(dict(sorted(flavor.extra_specs.items())))
    plain = operator.attrgetter("id", "name", "vcpus", "ram", "disk", "is_public")(flavor)
    return ("id", "name", "vcpus", "ram", "disk", "public", "properties"), (*plain, specs)
