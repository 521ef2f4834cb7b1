# SPDX-License-Identifier: Apache-2.0
"""A host's validation result in Nova's terms: traits for what flavors require, a score for what they prefer.

nova-compute asks with every update of its inventory, so a new result counts within a minute and
one that has become too old is withdrawn by itself. Nova puts the traits into Placement with its
own credentials and creates custom traits that are missing there.
"""

import datetime
import logging
import os
import re
from collections.abc import Mapping
from typing import Final

from nova_perf_tuning import printing
from nova_perf_tuning.nova import Options, ProviderTree, host_result

LOG = logging.getLogger(__name__)

#: Every trait of a compute node that begins so tells the outcome of a validation, but :data:`TRIAL`.
PREFIX: Final = "CUSTOM_PERF_"
VALIDATED: Final = f"{PREFIX}VALIDATED"

#: A node that carries this one gets all its CUSTOM_PERF_* traits from nova-compute, which has a
#: result file to read. Without it they are left to whoever sets them through Placement's API
#: (``openstack perf publish``).
MANAGED: Final = f"{PREFIX}MANAGED_BY_COMPUTE"

#: Traits that begin so say that a host is in a trial of its admission. They belong to whoever admits
#: hosts, and are no outcome.
TRIAL: Final = f"{PREFIX}TRIAL_"

#: Name in ``compute_node.stats``; :mod:`nova_perf_tuning.nova.weigher` reads it.
SCORE: Final = "perf_score"


def wanted(result: host_result.HostResult) -> frozenset[str]:
    """Return the traits that a result earns, given that it counts.

    CUSTOM_PERF_VALIDATED when it passed as a whole and CUSTOM_PERF_BUDGET_<NAME> for each budget
    passed. An INVALID result earns nothing. Names that differ in punctuation only share one trait,
    which then asks that all of them passed.
    """
    if result.verdict == "INVALID":
        return frozenset()
    verdicts: dict[str, set[str]] = {}
    for budget, verdict in result.budgets.items():
        name = re.sub(r"[^A-Z0-9]", "_", budget.upper())  # Placement takes nothing else
        verdicts.setdefault(f"{PREFIX}BUDGET_{name}", set()).add(verdict)
    passed = {trait for trait, found in verdicts.items() if found == {"PASS"}}
    if result.verdict == "PASS":
        passed.add(VALIDATED)
    return frozenset(passed)


def is_outcome(trait: str) -> bool:
    """Return whether a trait tells the outcome of a validation."""
    return trait.startswith(PREFIX) and not trait.startswith(TRIAL)


class HostTraits:
    """What the driver reports of its host's latest validation.

    A file that cannot be used is as good as none: nothing is reported, and the log says why, once
    for each new reason. Nothing here raises because of the file's contents.

    :param conf: Nova's configuration with the options of :mod:`nova_perf_tuning.conf.nova`.
    """

    def __init__(self, conf: Options) -> None:
        self._conf = conf
        self._said = ""

    def update_provider_tree(self, provider_tree: ProviderTree, nodename: str) -> None:
        """Bring the CUSTOM_PERF_* traits of the compute node in Nova's ``ProviderTree`` to what it has earned.

        Where there is no result file, traits set through Placement's API are left alone. Traits
        that were made from a file go with it: :data:`MANAGED` remembers, also over a restart, that
        they were.
        """
        present = {trait for trait in provider_tree.data(nodename).traits if is_outcome(trait)}
        result = self.result(nodename)
        earned: set[str] = set()
        if os.path.lexists(self._conf.nova_perf_tuning.result_file):
            earned.add(MANAGED)
            if result is not None:
                earned |= wanted(result)
        elif MANAGED not in present:
            return
        lost, new = sorted(present - earned), sorted(earned - present)
        if lost:
            provider_tree.remove_traits(nodename, *lost)
        if new:
            provider_tree.add_traits(nodename, *new)
        if earned != present:
            LOG.info("Traits of %s: %s", nodename, ", ".join(sorted(earned)) or f"no {PREFIX}*")

    def stats(self, nodename: str) -> Mapping[str, str]:
        """Return what ``stats`` of ``get_available_resource`` gain: the score while it counts, else nothing."""
        result = self.result(nodename)
        if result is None or result.score is None or result.verdict == "INVALID":
            return {}
        return {SCORE: f"{result.score:g}"}

    def result(self, nodename: str) -> host_result.HostResult | None:
        """Return the result that counts for ``nodename`` now, or None."""
        options = self._conf.nova_perf_tuning
        max_age, path = datetime.timedelta(seconds=options.result_max_age), options.result_file
        level, result, reason = logging.WARNING, None, f"{path}: no validation result yet"
        try:
            result = host_result.read(path)
            if result is None:
                level = logging.INFO
            else:
                reason = (
                    result.objection(nodename, datetime.datetime.now(datetime.UTC), max_age) or ""
                )
        except host_result.ResultError as error:
            reason = str(error)
        if reason not in ("", self._said):
            LOG.log(
                level,
                "Host %s gets no %s* traits: %s",
                nodename,
                PREFIX,
                printing.one_line(reason),
            )
        self._said = reason
        return None if reason else result
