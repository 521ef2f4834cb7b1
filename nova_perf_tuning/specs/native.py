# SPDX-License-Identifier: Apache-2.0
"""Nova's own ``hw:`` extra specs, by a list of what Nova 31 to 34 take or by the Nova that is installed."""

import difflib
import importlib.resources
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from nova_perf_tuning.rules import Finding, Level
from nova_perf_tuning.specs import crosscheck, vocabulary

#: Says what is wrong with a spec's key or value, None when nothing is: the validators of an
#: installed Nova.
Check = Callable[[str, str], str | None]

_TABLE: Final = (
    importlib.resources.files(__package__).joinpath("native.toml").read_text(encoding="utf-8")
)
#: Key -> allowed values in words and as a pattern; N is the number of a NUMA node of the guest.
KNOWN: Final[Mapping[str, tuple[str, str]]] = {
    f"{vocabulary.NATIVE_PREFIX}{name}": (
        entry.get("allowed", ""),
        entry.get("pattern", "(?s:.*)"),
    )
    for entry in tomllib.loads(_TABLE)["specs"]
    for name in entry["names"].split()
}


def memory_encryption(specs: Mapping[str, str]) -> str:
    """Return how guests' memory is encrypted by ``specs``, such as ``amd-sev``; empty: it is not."""
    asked = specs.get("hw:mem_encryption", "").strip().lower() in vocabulary.TRUE_STRINGS
    return specs.get("hw:mem_encryption_model", "amd-sev") if asked else ""


def findings(specs: Mapping[str, str], check: Check | None = None) -> Iterator[Finding]:
    """Yield what is wrong with each ``hw:`` spec by itself.

    :param check: of the Nova that is installed, which knows best. Without it a key that Nova 31 to
        34 do not know is only a warning: a later release may know it.
    """
    for key, value in specs.items():
        if not key.startswith(vocabulary.NATIVE_PREFIX):
            continue
        known = KNOWN.get(re.sub(r"\.[0-9]+$", ".N", key))
        wrong = None
        if check:
            wrong = check(key, value)
        shown = f"{vocabulary.shown(key)}={vocabulary.shown(value)}"
        if known is None and (wrong or not check):
            near = difflib.get_close_matches(key[:100], KNOWN, 1, 0.8)
            remedy = "remove it, or look for its name in Nova's documentation"
            if near:
                remedy = f"did you mean {near[0]}?"
            who, level = "Nova 31 to 34", Level.WARNING
            if check:
                who, level = "the installed Nova", Level.ERROR
            why = "Nova's API refuses it from microversion 2.86 on; before, it is stored and has no effect."
            yield crosscheck.wrong(
                "native-unknown", f"{shown}: {who} does not know it", remedy, why, level
            )
        elif wrong or (known and not check and not re.fullmatch(known[1], value)):
            allowed = str(wrong)
            if known and known[0]:
                allowed = f"allowed: {known[0]}"
            why = "Nova refuses the flavor, or cannot build a guest from it."
            yield crosscheck.wrong("native-value", shown, allowed, why)
