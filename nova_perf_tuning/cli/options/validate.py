# SPDX-License-Identifier: Apache-2.0
"""What ``nova-perf validate`` and ``openstack perf validate`` share: options, files and a line of progress."""

import argparse
import glob
import os
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

from nova_perf_tuning import atomic_write
from nova_perf_tuning.cli import options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.cli.options import output
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.printing import printable
from nova_perf_tuning.specs import crosscheck, parsing, profiles, request
from nova_perf_tuning.validation.bench import plugins
from nova_perf_tuning.validation.measure import results_file, session
from nova_perf_tuning.validation.results import environment, model, schema

DEFAULT_PROFILE: Final = "balanced"
_BENCHMARKS: Final = ("iperf3", "fio", "cpu")
_SECONDS: Final = 10
#: Seconds between two lines, but for important ones.
_INTERVAL_S = 5


def add_measurement(parser: argparse.ArgumentParser) -> None:
    """Add what is measured: the specs of the tuned guests, benchmarks, their length, the run's tags."""
    flavor_options.add_flavor(parser, DEFAULT_PROFILE)
    options.add_repeated(
        parser,
        "--benchmark",
        "KIND[:KEY=VALUE,...]",
        f"benchmark to run, see 'nova-perf bench list' (default: {', '.join(_BENCHMARKS)})",
    )
    options.add(
        parser,
        "--seconds",
        "N",
        f"length of each trial in seconds (default: {_SECONDS})",
        options.whole(1, 3600),
    )
    options.add_repeated(
        parser,
        "--tag",
        "KEY=VALUE",
        "tag of the run, such as kernel=new, for 'nova-perf history --tag'",
    )


def add_beside(parser: argparse.ArgumentParser) -> None:
    options.add_repeated(
        parser,
        "--beside",
        "KIND[:KEY=VALUE,...]",
        "load to run together with cyclictest, oslat or timerlat: cpu or iperf3",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    options.add(
        parser,
        "--output",
        "DIR",
        "directory for results.json and report.html (default: here)",
        default=".",
    )


def tuned_request(
    args: argparse.Namespace, vcpus: int | None
) -> tuple[request.Request, dict[str, str]]:
    """Return what the tuned guests ask for, and spec -> reason as the profile gives it.

    What does not fit ``vcpus`` of a guest is refused, where a guest would silently get less.
    """
    specs = flavor_options.flavor(args, DEFAULT_PROFILE)
    flavor_options.single_warnings(args, specs)
    known = profiles.load(args.profile_dir)
    tuned = parsing.parse(specs, {}, known)
    crosscheck.refuse(crosscheck.findings(tuned, specs, vcpus=vcpus))
    reasons = {}
    if tuned.profile:
        for key, entry in known[tuned.profile].specs.items():
            if key not in specs:
                reasons[key] = entry.reason
    return tuned, reasons


def jobs(benchmarks: Sequence[str], seconds: int | None) -> tuple[plugins.Job, ...]:
    return tuple(plugins.jobs(benchmarks or _BENCHMARKS, seconds or _SECONDS))


def output_files(directory: str) -> tuple[str, str]:
    return os.path.join(directory, "results.json"), os.path.join(directory, "report.html")


def check_planned(planned: environment.Environment) -> None:
    """Refuse a run whose results nobody could read afterwards: a name that is too long, too many of something.

    :param planned: what its results rest on, as far as the options say it.
    :raises InputError: names the place in the results.
    """
    document = results_file.to_dict(model.Results(planned, []))
    schema.check(
        "results", document, "results cannot hold what the options say; give shorter or fewer"
    )


def check_files(args: argparse.Namespace, read: Sequence[str]) -> None:
    """Refuse output files that the run reads or writes twice, by their options.

    :param read: what is read beside the budgets and profiles of the options.
    """
    written = [args.junit]
    for file in output_files(args.output):
        written += [file, _previous(file)]
    own_profiles: list[str] = []
    if args.profile_dir:
        own_profiles = sorted(glob.glob(os.path.join(glob.escape(args.profile_dir), "*.y*ml")))
    output.check(written, [*read, *result_options.budget_files(args.budget), *own_profiles])


def _previous(file: str) -> str:
    """Return the name that results or a report of an earlier run get."""
    stem, extension = os.path.splitext(file)
    return f"{stem}.previous{extension}"


def open_output(path: str) -> atomic_write.Directory | None:
    """Open the directory of ``--output`` for this run alone.

    Its links are followed now and never again.

    :returns: None: it is not there yet; :func:`make_output_directory` makes it later.
    """
    try:
        return _opened_alone(path)
    except atomic_write.OutputError:
        return None
    except OSError as error:
        raise options.OptionError(f"--output {path}: {error.strerror}") from None


def _opened_alone(path: str) -> atomic_write.Directory:
    """Open a directory and lock it for the time of the run: two runs would mix their files.

    :raises OptionError: another run has it. :raises OutputError, OSError: it cannot be opened.
    """
    directory = atomic_write.open_directory(path)
    try:
        directory.lock()
    except BlockingIOError:
        directory.close()
        advice = "give another directory, or wait until that run has ended"
        raise options.OptionError(
            f"--output {path}: another validation is writing there; {advice}"
        ) from None
    except BaseException:
        directory.close()
        raise
    return directory


def void_output(directory: atomic_write.Directory | None) -> list[str]:
    """Rename what an earlier run wrote, so that nothing takes it for results of this run.

    :param directory: of :func:`open_output`.
    :returns: the new names of the files that were there.
    """
    if directory is None:
        return []
    renamed = []
    for file in output_files(directory.path):
        previous = _previous(file)
        try:
            directory.rename(os.path.basename(file), os.path.basename(previous))
        except FileNotFoundError:
            continue
        except OSError as error:
            raise options.OptionError(
                f"--output: {file} of an earlier run stays: {error.strerror}"
            ) from None
        renamed.append(previous)
    return renamed


def make_output_directory(
    path: str, directory: atomic_write.Directory | None
) -> atomic_write.Directory:
    """Make it and see now, not after ten minutes, that files can be made in it.

    :param directory: of :func:`open_output`; None: it was not there.
    :returns: the open directory, to be closed by the caller. All files of the run go there,
        whatever ``path`` leads to meanwhile.
    """
    try:
        if directory is None:
            os.makedirs(path, exist_ok=True)
            directory = _opened_alone(path)
    except OSError as error:
        raise options.OptionError(f"--output {path}: {error.strerror}") from None
    try:
        probe = f".nova-perf-{os.getpid()}"
        os.close(atomic_write.open_or_make(probe, directory.descriptor))
        directory.remove(probe)
        for file in output_files(path):
            directory.check(os.path.basename(file))
    except OSError as error:
        directory.close()
        raise options.OptionError(f"--output {path}: {error.strerror}") from None
    except BaseException:
        directory.close()
        raise
    return directory


def progress(to_stderr: bool) -> Callable[[session.Progress], None]:
    """Return what prints progress on stdout, or on stderr where stdout has the JSON."""
    stream = sys.stdout
    if to_stderr:
        stream = sys.stderr
    last = float("-inf")

    def show(now: session.Progress) -> None:
        nonlocal last
        at = time.monotonic()
        if at - last < _INTERVAL_S and not now.important:
            return
        last = at
        line = f"[{now.done}/{now.total}] {_left(now)}  {now.text}"
        print(printable(line), file=stream, flush=True)

    return show


def _left(now: session.Progress) -> str:
    """Return the time that is left as people read it; an estimate of none is wrong while something runs."""
    seconds = max(0, round(now.left_s))
    if seconds == 0 and now.done < now.total:
        return "longer than expected"
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"about {hours}:{minutes:02d}:{rest:02d} left"
    return f"about {minutes}:{rest:02d} left"
