# SPDX-License-Identifier: Apache-2.0
"""Reads a plan in the form of ``nova-perf plan -f json``.

A plan's author need not be trusted: a file holds only what the planner itself proposes.
"""

import re
from typing import Any, Final

from nova_perf_tuning import bounded_json, bounded_read, errors, printing
from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.transaction import journal

#: A plan of the largest host that is tested (11,000 settings) has 5 MB.
MAX_BYTES: Final = 64 << 20

_FIELDS: Final = ("kind", "target", "value", "current", "reason", "rule", "identity")
_CPUS: Final = "[0-9][0-9,-]*"
_MASK: Final = "[0-9a-f][0-9a-f,]*"
#: ``DEVICE|ACTION``; the handlers' name becomes a part of a path: one name, not ``.`` or ``..``.
_HANDLER: Final = r"([^/|]*\|(?!\.{1,2}$)[^/]*)?"
_THREAD: Final = "([0-9]{1,10}:[0-9]{1,20})?"
_KERNEL_THREAD: Final = r"([0-9]{1,20}:[^\0\n]{0,64})?"
#: Kind of setting that the planner makes -> patterns of its target, its value and its identity.
FORMS: Final = {
    "irq_affinity": ("irq:[0-9]{1,7}", _CPUS, _HANDLER),
    "thread_affinity": ("tid:[0-9]{1,10}", _CPUS, _THREAD),
    "xps": (f"{host_model.DEVICE}/tx-[0-9]{{1,4}}", _MASK, ""),
    "kernel_thread_affinity": ("tid:[0-9]{1,10}", _CPUS, _KERNEL_THREAD),
    "host_cpus": (
        f"{host_model.NEW_IRQS}|{host_model.NEW_DEVICES}|{host_model.WORKQUEUE}",
        _MASK,
        "",
    ),
    "rps": (f"{host_model.DEVICE}/rx-[0-9]{{1,4}}", _MASK, ""),
}


class PlanFileError(errors.PerfTuningError):
    """A plan file cannot be read or is no plan."""


def load(path: str) -> list[host_model.Setting]:
    """Return the settings of the plan in ``path`` (``-`` is standard input).

    :raises PlanFileError: no such file, too large, no JSON, not the documented form, or a setting
        that the planner does not make.
    """
    try:
        plan = bounded_json.parse(bounded_read.read_argument(path, MAX_BYTES))
    except OSError as error:
        raise PlanFileError(f"{path}: {error.strerror}") from None
    except bounded_json.JsonError as error:
        raise PlanFileError(f"{path}: {error}") from None
    if not isinstance(plan, dict) or not isinstance(plan.get("settings"), list):
        raise PlanFileError(
            f"{path}: it has no list of settings; see 'nova-perf plan -f json' for the form"
        )
    return [_setting(path, item) for item in plan["settings"]]


def _setting(path: str, item: Any) -> host_model.Setting:
    fields: dict[str, Any] = {}
    if isinstance(item, dict):
        fields = {name: item.get(name) or "" for name in _FIELDS}
    if not fields or not all(isinstance(text, str) for text in fields.values()):
        raise PlanFileError(
            f"{path}: {str(item)[:80]!r} is not a setting; see 'nova-perf plan -f json' for the "
            "form"
        )
    # They are for people and have names that tenants chose: what a terminal would obey in them is
    # no reason to refuse the plan.
    for name in ("current", "reason", "rule"):
        fields[name] = printing.printable(fields[name])
    kind = fields["kind"]
    if kind not in FORMS:
        raise PlanFileError(
            f"{path}: settings of kind {kind[:40]!r} are not taken from a file, only {', '.join(FORMS)};"
            " 'nova-perf apply --rule ID' writes others"
        )
    for name, pattern in zip(("target", "value", "identity"), FORMS[kind], strict=True):
        text = fields[name]
        if not text.isprintable() or not re.fullmatch(pattern, text, re.ASCII):
            found = f"{kind}: {name} {text[:60]!r}"
            raise PlanFileError(f"{path}: {found} is not of the form {pattern or 'empty'}")
    if fields["rule"] in journal.AGENT_RULES:
        fields["rule"] = (
            f"file:{fields['rule']}"  # what a person takes from a file is the person's
        )
    return host_model.Setting(**fields)
