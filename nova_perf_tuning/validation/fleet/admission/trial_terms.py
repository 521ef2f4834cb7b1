# SPDX-License-Identifier: Apache-2.0
"""What the trials of a group are judged by, as a part of its hosts' fingerprints."""

import dataclasses
import hashlib
import json

from nova_perf_tuning.validation.fleet.admission.policy import HostGroup
from nova_perf_tuning.validation.judge import budget_file
from nova_perf_tuning.validation.judge.budget import Budget


def digest(group: HostGroup) -> str:
    """Return a short name for a group's budgets and its options of ``openstack perf validate``.

    Comments and reasons do not count, and what a budget leaves to its default.

    :raises schema.InputError: the budget file cannot be read.
    """
    budgets = [_limits(budget) for budget in budget_file.load(group.budget)]
    text = json.dumps([budgets, list(group.validate)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _limits(budget: Budget) -> dict[str, object]:
    """Return what a budget says apart from its reason."""
    found: dict[str, object] = {}
    for field in dataclasses.fields(budget):
        value = getattr(budget, field.name)
        if field.name == "guards":
            found[field.name] = dataclasses.asdict(value)
        elif field.name != "reason" and value != field.default:
            found[field.name] = value
    return found
