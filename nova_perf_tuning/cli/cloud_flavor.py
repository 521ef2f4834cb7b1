# SPDX-License-Identifier: Apache-2.0
"""What several ``openstack perf flavor`` commands and ``image check`` share."""

import argparse
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
        help="exit with 1 if a finding has this level or higher (default: warning)",
    )


def findings_table(
    command: cloud_command.CloudCommand,
    what: str,
    findings: Sequence[tuple[str, rules.Finding]],
    fail_on: str,
) -> cloud_command.Rows:
    """Return findings as rows, and let the command end with 1 when one reaches ``fail_on``."""
    rows = []
    for name, finding in findings:
        if finding.level.rank >= rules.Level(fail_on).rank:
            command.exit_code = errors.ExitCode.FAIL
        row = (
            name,
            finding.level.value,
            finding.rule,
            finding.evidence[0].value,
            finding.why,
            finding.remedy,
            finding.source,
        )
        rows.append(row)
    return (what, "Level", "Rule", "Found", "Why", "Remedy", "Source"), rows


def shown(flavor: sdk_flavor.Flavor) -> cloud_command.Shown:
    names = ("id", "name", "vcpus", "ram", "disk", "public", "properties")
    values = (
        flavor.id,
        flavor.name,
        flavor.vcpus,
        flavor.ram,
        flavor.disk,
        flavor.is_public,
        format_columns.DictColumn(dict(sorted(flavor.extra_specs.items()))),
    )
    return names, values
