"""What the agent says of itself to ``nova-perf status`` and to people: one small file below /run."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from nova_perf_tuning import at_once, errors, whole_file

SCHEMA: Final = 1
FILE: Final = "agent.json"
RUN_DIR: Final = "/run/nova-perf-tuning"
_MAX_BYTES: Final = 4 << 20
#: Levels of lists and objects in each other; no agent writes more than four.
_MAX_DEPTH: Final = 8
_MAX_NUMBER: Final = 10**15
_ADVICE: Final = "restart nova-perf-agent; where none runs remove the file"
#: An agent may tell anew later than it said by this share of the time, and by these seconds, and be at work.
_LATE_SHARE, _LATE_S = 0.5, 10.0


class RunDirError(errors.PerfTuningError):
    """The folder below /run cannot be used."""


class UnreadableError(errors.PerfTuningError):
    """What is there is not what an agent of this version writes."""


def prepare(folder: str) -> None:
    """Make the folder if need be (0755: its files are for everybody to read, for us alone to write).

    :raises RunDirError: it cannot be made, or others may write there.
    """
    try:
        os.makedirs(folder, mode=0o755, exist_ok=True)
        found = os.stat(folder)
    except OSError as error:
        raise RunDirError(
            f"[agent] run_dir {folder}: {error.strerror}: name a folder that root can make"
        ) from None
    if found.st_uid != os.geteuid() or found.st_mode & 0o022:
        raise RunDirError(f"[agent] run_dir {folder}: others may write there; name a folder of root's own")


def write(folder: str, content: dict[str, Any]) -> None:
    """Write the state whole."""
    data = json.dumps({"schema": SCHEMA, **content}, ensure_ascii=True).encode()
    with whole_file.writing(os.path.join(folder, FILE)) as file:
        file.write(data)


def remove(folder: str) -> None:
    """Forget the state: the agent has ended."""
    try:
        os.unlink(os.path.join(folder, FILE))
    except OSError:
        pass


def read(folder: str = RUN_DIR) -> dict[str, Any] | None:
    """Return what an agent wrote, checked, with three fields added; None where none ever ran or it has ended.

    ``running`` is False for what an agent that was killed left behind, ``age_s`` None where the clock was set back
    since, ``late`` True where it runs and should long have told anew. Text in it may come from guests.

    :raises UnreadableError: it cannot be read, or is not as agents write it.
    """
    path = os.path.join(folder, FILE)
    try:
        data = at_once.read(path, _MAX_BYTES)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise UnreadableError(f"{path}: {error.strerror}: {_ADVICE}") from None
    try:
        found: dict[str, Any] = json.loads(data.decode())
    except (ValueError, RecursionError):
        raise UnreadableError(f"{path}: it is no JSON text: {_ADVICE}") from None
    fault = _fault(found)
    if fault:
        raise UnreadableError(f"{path}: {fault}: {_ADVICE}")
    start = process_start(found["pid"])
    found["running"] = start == found["pid_start"] if start is not None else _is_hidden(found["pid"])
    found["age_s"] = age = _age(found)
    within = found.get("told_within_s")
    found["late"] = bool(
        found["running"]
        and age is not None
        and within is not None
        and age > within + max(_LATE_S, _LATE_SHARE * within)
    )
    return found


def _age(found: Mapping[str, Any]) -> float | None:
    """Return the seconds since it was written; only within one boot by the clock that nobody can set."""
    since = found.get("updated_monotonic")
    if found["running"] and since is not None:
        age = time.monotonic() - since
    else:
        age = time.time() - found["updated"]
    return round(age, 1) if age >= 0 else None


def process_start(pid: int) -> str | None:
    """Return a live process's start time in ticks after boot: with its number it names it for ever."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        # One that was killed keeps its number until its parent takes note of it.
        return None if fields[0] in (b"Z", b"X", b"x") else fields[19].decode("ascii", "replace")
    except (OSError, IndexError):
        return None


def _is_hidden(pid: int) -> bool:
    """Whether a process of another user's is there whose files we may not see (proc(5), hidepid)."""
    try:
        os.kill(pid, 0)
    except PermissionError:
        return not os.path.exists(f"/proc/{pid}/stat")
    except (OSError, OverflowError):
        pass
    return False


def _fault(found: Any) -> str:
    """Return what is odd in a state, empty where all of it can be shown."""
    if not isinstance(found, dict):
        return "it is no JSON object"
    if found.get("schema") != SCHEMA:
        return f"it was written by another version (schema is not {SCHEMA})"
    if not _is_plain(found):
        return "it holds numbers beyond all measure, or lists in lists in lists"
    missing = _REQUIRED - found.keys()
    if "event_to_placed" in found:
        missing |= _COUNTED - found.keys()
    if missing:
        return f"{min(missing)} is missing"
    wrong = [name for name, check in _FIELDS.items() if name in found and not check(found[name])]
    return f"{wrong[0]} is not what an agent writes there" if wrong else ""


def _is_plain(value: object, depth: int = 0) -> bool:
    if isinstance(value, dict | list):
        values = value.values() if isinstance(value, dict) else value
        return depth < _MAX_DEPTH and all(_is_plain(one, depth + 1) for one in values)
    return not isinstance(value, int | float) or abs(value) <= _MAX_NUMBER  # NaN is not


def _is_number(value: object) -> bool:
    return type(value) in (int, float)


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _is_text_or_none(value: object) -> bool:
    return value is None or isinstance(value, str)


def _is_counts(value: object) -> bool:
    return isinstance(value, dict) and all(map(_is_count, value.values()))


def _is_finding(value: object) -> bool:
    if not isinstance(value, dict) or not _is_text(value.get("what")) or not _is_text(value.get("detail", "")):
        return False
    return "target" not in value or (_is_text(value["target"]) and _is_text(value.get("kind")))


def _is_placed(value: object) -> bool:
    if not isinstance(value, dict):
        return False
    within = value.get("within_s")
    return _is_count(value.get("count")) and _is_number(value.get("sum_s")) and _is_counts(within) and bool(within)


#: What an agent of an earlier version may not write is not required.
_REQUIRED: Final = frozenset({"pid", "pid_start", "updated"})
_COUNTED: Final = frozenset({"passes", "verifies", "errors", "withdrawn", "written", "drifted", "cpu_s"})
_FIELDS: Final[Mapping[str, Callable[[object], bool]]] = {
    "pid": lambda value: _is_count(value) and value != 0,
    "pid_start": _is_text_or_none,
    **dict.fromkeys(("started", "updated", "updated_monotonic", "told_within_s", "cpu_s"), _is_number),
    **dict.fromkeys(("settings", "passes", "verifies", "skipped", "errors", "withdrawn"), _is_count),
    "guests": lambda value: value is None or _is_count(value),
    **dict.fromkeys(("written", "drifted", "findings_total"), _is_counts),
    "event_to_placed": _is_placed,
    "error": _is_text,
    "libvirt": _is_text_or_none,
    "findings": lambda value: isinstance(value, list) and all(map(_is_finding, value)),
    "warnings": lambda value: isinstance(value, list) and all(map(_is_text, value)),
}
