# SPDX-License-Identifier: Apache-2.0
"""``nova-perf publish``: the verdict on this host where its nova-compute reads it."""

import argparse
import contextlib
import datetime
import os
import platform
import stat
from collections.abc import Sequence
from typing import NamedTuple

from oslo_config import cfg

from nova_perf_tuning import atomic_write, bounded_json
from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import results as result_options
from nova_perf_tuning.conf import nova, opts
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.nova import host_result, traits
from nova_perf_tuning.printing import one_line
from nova_perf_tuning.validation.judge import host_results
from nova_perf_tuning.validation.report import reason_lines
from nova_perf_tuning.validation.results import messages


class Publish(command.PerfCommand):
    """Publish the verdict on this host to its nova-compute, which turns it into traits.

    Run it on the compute host. RESULT is the results.json of a validation of this host or of many
    hosts, or a result file. The verdict is written to the file that [nova_perf_tuning] result_file
    names, in the state directory. nova-compute with this project's driver reads it within a minute
    and sets CUSTOM_PERF_VALIDATED and CUSTOM_PERF_BUDGET_* in Placement. It removes them when the
    result is too old, or after --withdraw. The command needs write access to that file, but no
    credentials.

    With --budget the trials in RESULT are judged now. Without it, the recorded verdicts of a run
    over many hosts are published. A result is refused if it is INVALID, too old, from another host,
    or from an interrupted run; what is already published then stays.

    Example: nova-perf publish results.json --budget network.yaml
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "result",
            metavar="RESULT",
            nargs="?",
            help="results.json of 'validate', or a result file",
        )
        options.add(
            parser,
            "--budget",
            "FILE",
            "overhead budgets (YAML; 'default': those shipped) that judge the trials in RESULT; the "
            "file's name without .yaml becomes NAME in CUSTOM_PERF_BUDGET_NAME",
        )
        result_options.add_host_group(parser)
        result_options.add_flavor(parser)
        parser.add_argument("--withdraw", action="store_true", help="remove the published result")
        options.add_repeated(
            parser,
            "--nova-config",
            "FILE",
            "configuration of nova-compute, for the host's name and the result file (default: the "
            "files that 'nova-perf plan' finds, such as /etc/nova/nova.conf)",
        )

    def take_action(self, args: argparse.Namespace) -> None:
        conf = _nova_conf(args.nova_config)
        path = os.path.join(conf.directory, conf.name)
        if args.withdraw:
            _withdraw(args, conf)
            return
        if args.result is None:
            raise options.OptionError(
                "RESULT is missing: give what 'nova-perf validate' wrote, or --withdraw"
            )
        verdicts = result_options.read(args)
        verdicts.check_publishable(args.result)
        result = _usable(args, verdicts, _own_name(verdicts, conf.host), conf.max_age)
        verdict = result.to_json().encode()
        atomic_write.make_directory(conf.directory)
        with _opened(conf.directory) as directory:
            _check_replaceable(path, directory)
            with atomic_write.writing(path, directory=directory) as file:
                file.write(verdict)
        _show(args, verdicts, result, path)


class _NovaConf(NamedTuple):
    """What nova-compute's files say; ``host`` is empty where they name none.

    :ivar directory: one of :func:`_directories`; :ivar name: of the file of the verdict in it.
    """

    host: str
    directory: str
    name: str
    max_age: datetime.timedelta


def _nova_conf(files: Sequence[str]) -> _NovaConf:
    """Read nova-compute's files by the reader that follows nothing: root runs this, and Nova's user owns them."""
    paths = list(files)
    if not paths:
        paths = [f"/{path}" for path in novaconf.find(Root("/"), strict=True)]
    found = novaconf.merge(novaconf.texts(paths), strict=True)
    source = found.get(("DEFAULT", "config_source"))
    if source is not None:
        raise options.OptionError(
            f"nova.conf {source.source}: other sources are not read; see --nova-config"
        )
    host = _value(found, "DEFAULT", "host", cfg.StrOpt("host", default=""))
    declared = {option.name: option for option in nova.OPTS}
    path = _value(found, nova.GROUP.name, "result_file", declared["result_file"])
    age = _value(found, nova.GROUP.name, "result_max_age", declared["result_max_age"])
    directory, name = os.path.split(path)
    allowed = _directories()
    if directory not in allowed or not name.endswith(".json"):
        wanted = f"name a file in {' or '.join(allowed)} that ends in .json"
        raise options.OptionError(
            f"[{nova.GROUP.name}] result_file is {one_line(path, 80)}; {wanted}"
        )
    return _NovaConf(host, directory, name, datetime.timedelta(seconds=int(age)))


def _directories() -> list[str]:
    """Return where a verdict may be: in the state directory that root has configured, and in the default one.

    Nova's user owns nova.conf, so it does not choose the directory in which root makes a file.
    """
    [default] = [str(option.default) for option in nova.HOST_OPTS if option.name == "state_dir"]
    configured = str(opts.load(opts.default_files("/")).nova_perf_tuning.state_dir)
    return list(dict.fromkeys((configured.rstrip("/"), default)))


def _opened(path: str) -> atomic_write.Directory:
    """Open the directory of the verdict.

    :raises OptionError: others may write in it, and put another file into the place of the one
        that was looked at.
    """
    directory = atomic_write.open_directory(path)
    found = os.fstat(directory.descriptor)
    if found.st_uid not in (0, os.geteuid()) or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        directory.close()
        raise options.OptionError(
            f"{path}: others may write in it; make it root's own (chown root, chmod go-w)"
        )
    return directory


def _value(found: novaconf.Options, section: str, name: str, option: cfg.Opt) -> str:
    """Return an option as nova-compute reads it, without the references that oslo.config would follow."""
    source, text = found.get((section, name), novaconf.Value("", ""))
    if "$" in text:
        raise options.OptionError(
            f"nova.conf {source}: {text[:80]} is not followed; write its value"
        )
    if not source:
        return str(option.default)
    try:
        value = option.type(text.strip())
    except ValueError as error:
        raise options.OptionError(
            f"nova.conf {source}: {one_line(error, 200)}; correct or remove it"
        ) from None
    if value is None:  # of a number that is empty
        raise options.OptionError(
            f"nova.conf {source}: [{section}] {name} is empty; give it a value or remove it"
        )
    return str(value)


def _check_replaceable(path: str, directory: atomic_write.Directory) -> None:
    """Refuse to replace or remove anything but a verdict: Nova's user owns nova.conf, which names the file."""
    directory.check(os.path.basename(path))
    try:
        host_result.read(path, directory.descriptor)
    except host_result.ResultError as error:
        advice = "move it away, or correct [nova_perf_tuning] result_file"
        raise options.OptionError(
            f"{one_line(error, 200)}; only a verdict is replaced or removed: {advice}"
        ) from None


def _usable(
    args: argparse.Namespace,
    verdicts: host_results.HostResults,
    name: str,
    max_age: datetime.timedelta,
) -> host_result.HostResult:
    result = host_results.of_host(verdicts.hosts, name, args.result)
    if result.verdict == "INVALID":
        raise options.OptionError(
            f"{args.result}: INVALID says nothing about the host; validate again"
        )
    objection = result.objection(name, datetime.datetime.now(datetime.UTC), max_age)
    if objection is not None:
        raise options.OptionError(f"{args.result}: {objection}")
    return result


def _own_name(verdicts: host_results.HostResults, service: str | None) -> str:
    """Return what the results call this host: as [DEFAULT] host calls its service, or as its node is called."""
    node = platform.node()
    known = [result.host for result in verdicts.hosts]
    node_is_known = any(host_result.same_host(name, node) for name in known)
    if not service or (node_is_known and service not in known):
        return node
    return service


def _withdraw(args: argparse.Namespace, conf: _NovaConf) -> None:
    if args.result is not None:
        raise options.OptionError("--withdraw removes the published result; leave out RESULT")
    path = os.path.join(conf.directory, conf.name)
    removed = False
    if os.path.lexists(path):
        with _opened(conf.directory) as directory:
            _check_replaceable(path, directory)
            with contextlib.suppress(FileNotFoundError):
                directory.remove(conf.name)
                removed = True
    if args.format == "json":
        command.print_json({"file": path, "removed": removed})
    elif removed:
        command.say(f"{path}: removed; nova-compute takes its traits away")
    else:
        command.say(f"{path}: not there")


def _show(
    args: argparse.Namespace,
    verdicts: host_results.HostResults,
    result: host_result.HostResult,
    path: str,
) -> None:
    earned = sorted(traits.wanted(result))
    if args.format == "json":
        document = {
            "file": path,
            "result": bounded_json.parse(result.to_json()),
            "traits": earned,
            "recorded": verdicts.recorded,
            **reason_lines.lines("left_out", verdicts.left_out),
            **reason_lines.lines("notes", verdicts.notes),
        }
        command.print_json(document)
        return
    how = "judged now from"
    if verdicts.recorded:
        how = "as recorded in"
    command.say(f"{result.verdict} of host {result.host}, {how} {args.result}: {path}")
    for reason in (*verdicts.notes, *verdicts.left_out):
        command.say(f"note: {messages.of(reason)}")
    command.say(f"traits, as soon as nova-compute has read it: {', '.join(earned) or 'none'}")
