# SPDX-License-Identifier: Apache-2.0
"""Nothing is cut without a note that says how much is left out, and cut names of two things stay different."""

import ast
import base64
import dataclasses
import json
import pathlib
import re
from types import SimpleNamespace
from unittest import mock

import nova_perf_tuning
from nova_perf_tuning import errors
from nova_perf_tuning.cli import cloud_validate_run
from nova_perf_tuning.placement import hosts
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.heat import cloud_check
from nova_perf_tuning.validation.judge import ablation, host_results
from nova_perf_tuning.validation.launch import base, guest, local
from nova_perf_tuning.validation.report import report
from nova_perf_tuning.validation.results import environment as environments
from nova_perf_tuning.validation.store import history
from tests.support import directories, samples

PACKAGE = pathlib.Path(nova_perf_tuning.__file__).parent
_BOUND = re.compile(r"_?(MAX|MOST|SHOWN|NAMED)[A-Z_]*")
#: Places that cut by a bound, each looked at: a note, a count beside it, or the rest decides and shows nothing.
LOOKED_AT = {
    ("agent/service.py", "NAMED"),  # findings_total and warnings_total
    ("arguments.py", "_MOST_HINTS"),  # near names, the nearest first
    ("cli/cloud_validate_run.py", "_MAX_CPU_FAULTS"),
    ("cli/plan.py", "_SHOWN"),
    ("host/audit/background.py", "_SHOWN"),  # the finding counts them
    ("host/audit/device_interrupts.py", "_NAMED"),  # the finding counts them
    ("host/audit/guest_pins.py", "_SHOWN"),  # "12 more"
    ("host/audit/guest_shape.py", "_SHOWN"),  # "12 more"
    ("host/audit/nic_interrupts.py", "_SHOWN"),  # "12 more"
    ("host/audit/placement.py", "_SHOWN"),  # "so may 12 more guests" behind each
    ("host/input/facts/claims.py", "MAX_BOUND_IN_ALL"),  # NoteCode.THREADS_LEFT_OUT
    ("host/input/facts/claims.py", "MAX_BOUND_THREADS"),  # NoteCode.THREADS_LEFT_OUT
    ("host/input/facts/claims.py", "MAX_KERNEL_THREADS"),  # NoteCode.THREADS_LEFT_OUT
    ("host/input/facts/claims.py", "MAX_SWITCH_THREADS"),  # NoteCode.THREADS_LEFT_OUT
    ("host/input/facts/claims.py", "MAX_SLICES"),  # NoteCode.SLICES_LEFT_OUT
    ("host/input/facts/writers.py", "_MOST_LINKS"),  # NoteCode.FILES_LEFT_OUT
    ("host/input/novaconf.py", "_MOST_FILES"),  # NoteCode.FILES_LEFT_OUT
    ("json_schema.py", "_MOST"),  # one fault is named
    ("nova/error_policy.py", "_MAX_CAUSE"),
    ("guest/probe.py", "_MAX_TEXT"),  # what is missing is unknown
    ("validation/bench/base.py", "_MOST_WORDS"),  # "left out" of a workload
    ("validation/fleet/fleet_results.py", "_MAX_CPU_FAULTS"),  # host_cpu_faults_left_out
    ("validation/judge/host_results.py", "MAX_LOSSES"),  # LOSSES_LEFT_OUT
    ("validation/measure/sampling.py", "MAX_CPUS"),  # hidden of a course
    ("validation/results/schema.py", "_MOST_FAULTS"),  # one fault is named
    ("validation/report/report.py", "_SHOWN_TRIALS"),
}


def _called(function):
    """Return the name by which a function is called, without where it is from."""
    return getattr(function, "attr", None) or getattr(function, "id", "")


def bounds_of(path):
    """Return the names of bounds by which a source file cuts: of slices and of islice()."""
    found, text = set(), path.read_text(encoding="utf-8")
    if not _BOUND.search(text):
        return found
    for node in ast.walk(ast.parse(text)):
        ends = []
        if isinstance(node, ast.Slice) and node.upper is not None:
            ends = [node.upper]
        elif isinstance(node, ast.Call) and _called(node.func) == "islice":
            ends = node.args[1:]
        names = [ast.unparse(end).rpartition(".")[2] for end in ends]
        found |= {name for name in names if _BOUND.fullmatch(name)}
    return found


def message(error, function, *arguments):
    try:
        function(*arguments)
    except error as raised:
        return str(raised)
    return ""


class CutsTest(directories.DirectoryCase):
    def networks(self):
        networks = [SimpleNamespace(id=str(number), name=f"net{number}") for number in range(7)]
        api = mock.Mock()
        api.call = lambda function: function()
        api.connection.network.networks.return_value = networks
        return message(errors.CloudError, cloud_check.external_network, api)

    def results_of_hosts(self):
        found = [SimpleNamespace(host=f"host{number}") for number in range(14)]
        return message(errors.CloudError, host_results.of_host, found, "none", "results.json")

    def compute_hosts(self):
        known = [
            SimpleNamespace(name=f"host{number}", node=f"node{number}") for number in range(14)
        ]
        return message(errors.CloudError, hosts.choose, known, "none")

    def cpu_faults(self):
        faults = {f"agent of h{number}": "no answer" for number in range(50)}
        environment = environments.Environment(host_cpu_faults=faults, host_cpu_faults_left_out=7)
        return "\n".join(cloud_validate_run.cpu_faults(environment))

    def rendered(self):
        data = samples.results({"host": 3.0, "tuned": 2.0}, boots=2, blocks=2)
        failed = [
            samples.trial(order=20 + at, value=None, error="lost", window_s=0.0) for at in range(5)
        ]
        data.trials += failed
        data.environment.errors = [environments.Incident(f"fault {number}") for number in range(6)]
        data.environment.tags = {f"tag{number}": "x" for number in range(112)}
        data.environment.kernel = "k" * 4009
        with mock.patch.object(report, "_SHOWN_TRIALS", 2):
            return report.render(data, report.summary.summarise(data), [])

    def guest_output(self):
        data = base64.b64encode(bytes(base.STDOUT_LIMIT + 5)).decode()
        answer = json.dumps({"return": {"exited": True, "exitcode": 0, "out-data": data}})
        with mock.patch("libvirt_qemu.qemuAgentCommand", return_value=answer):
            return guest.AgentChannel(None, base.LaunchError).exited(7).stdout[-200:]

    def host_output(self):
        machine = local.HostMachine("client", "127.0.0.1", None, str(self.directory / "run"))
        with mock.patch.object(base, "STDOUT_LIMIT", 10):
            return machine.run(["printf", "x" * 17], 10).stdout

    def test_each_cut_says_how_much_is_left_out(self):
        for producer, notes in (
            (self.networks, ["and 2 more"]),
            (self.results_of_hosts, ["and 4 more"]),
            (self.compute_hosts, ["and 4 more"]),
            (self.cpu_faults, ["not known from 52 more places"]),
            (
                self.rendered,
                [
                    "And 3 more failed trials and 4 more errors",
                    "and 12 more</td>",
                    "and 9 more characters",
                    "The first 2 are shown",
                ],
            ),
            (self.guest_output, ["[5 more bytes of the output are left out]"]),
            (self.host_output, ["[7 more bytes of the output are left out]"]),
        ):
            with self.subTest(producer.__name__):
                shown = producer()
                for note in notes:
                    self.assertIn(note, shown)

    def test_output_within_the_bound_has_no_note(self):
        self.assertEqual("x" * 10, base.cut(b"x" * 10, 10))

    def test_every_bound_of_the_source_was_looked_at(self):
        files = [(path, str(path.relative_to(PACKAGE))) for path in PACKAGE.rglob("*.py")]
        self.assertEqual(
            LOOKED_AT, {(name, bound) for path, name in files for bound in bounds_of(path)}
        )


class NamesTest(directories.DirectoryCase):
    def test_two_arms_never_have_one_name(self):
        offloads = {"tso4": True, "csum": False, "tso6": True}
        wanted = request.Request(
            profile="balanced", vif_queues=4, iothreads=2, vif_host_offload=offloads
        )
        for length in (20, 40):
            with mock.patch.object(ablation, "_ARM_LENGTH", length):
                names = [arm.name for arm in ablation.arms(wanted).values()]
            self.assertEqual(5, len({*names}))
            self.assertTrue(all(len(name) <= length for name in names), names)

    def test_names_that_differ_only_in_what_is_replaced_are_numbered(self):
        self.assertEqual("no-a-b", ablation._name("a.b", ()))
        self.assertEqual("no-a-b-3", ablation._name("a/b", {"no-a-b", "no-a-b-2"}))

    def test_long_fingerprints_stay_different(self):
        environment = environments.Environment(cpu_model="x" * 300, cpus=4, memory_mib=1024)
        other = dataclasses.replace(environment, cpus=8)
        found = [history._fingerprint(some, ()) for some in (environment, other)]
        self.assertNotEqual(*found)
        self.assertEqual([200, 200], list(map(len, found)))
