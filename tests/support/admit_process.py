# SPDX-License-Identifier: Apache-2.0
"""``openstack perf admit --watch`` in a process of its own, on a simulated cloud that outlives it in a file.

The process kills itself with SIGKILL after the step of a given number: a change in the cloud, a transaction of the
store, the beginning of a measurement. Without a number it ends by SIGTERM when there is nothing to do any more.
"""

import os
import pathlib
import pickle
import signal
from unittest import mock

from nova_perf_tuning.cli import cloud_admit, cloud_admit_run
from nova_perf_tuning.validation.fleet.admission import cloud as clouds
from nova_perf_tuning.validation.fleet.admission import fleet_validator, openstack_cloud, store
from nova_perf_tuning.validation.fleet.admission import policy as admission_policy
from tests.support import admission_cloud

#: Passes without a step after which nothing else happens: measurements take no time here.
_IDLE = 1


class Steps:
    """Counts steps, and kills the process after one of them."""

    def __init__(self, last=None):
        self.count, self.last = 0, last

    def done(self):
        self.count += 1
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)


class FileCloud(admission_cloud.FakeCloud):
    """A cloud whose state is in a file.

    :ivar begun: measurements. :ivar failing: hosts that are bad.
    :ivar closed: hosts of which no guest could land on once; :ivar early: those that a guest could land on later
        although they had no PASS with the fingerprint that they have.
    """

    def __init__(self, path, steps=None):
        super().__init__()
        self._path, self.steps, self._looks = pathlib.Path(path), steps or Steps(), []
        self.begun, self.failing, self.closed, self.early = {}, set(), set(), set()
        if self._path.exists():
            self.__dict__.update(pickle.loads(self._path.read_bytes()))

    def save(self):
        names = ("hosts", "known", "groups", "changes", "begun", "failing", "closed", "early")
        new = self._path.with_suffix(".new")
        new.write_bytes(pickle.dumps({name: getattr(self, name) for name in names}))
        new.replace(self._path)

    def look(self):
        """Look; end the process when nothing has happened for some passes."""
        self._looks.append(self.steps.count)
        if len(self._looks) > _IDLE and self._looks[-1 - _IDLE] == self.steps.count:
            os.kill(os.getpid(), signal.SIGTERM)
        return super().look()

    def watch_hosts(self):
        """Take note of where guests can land."""
        passed = set()
        for found in self.begun.values():
            for host, (outcome, fingerprint) in found.items():
                if outcome == "PASS":
                    passed.add((host, fingerprint))
        for name, host in self.hosts.items():
            if not self.lands(name):
                self.closed.add(name)
            elif name in self.closed and (name, host.fingerprint) not in passed:
                self.early.add(name)

    def _change(self, what, about, act):
        super()._change(what, about, act)
        del self.log[:]
        self.watch_hosts()
        self.save()
        self.steps.done()

    def join(self, aggregate, host):
        super().join(aggregate, host)
        self.save()

    def leave(self, aggregate, host):
        super().leave(aggregate, host)
        self.save()


class FileValidator:
    """Measures at once, and remembers it in the cloud's file."""

    def __init__(self, cloud):
        self._cloud = cloud

    def begin(self, run):
        if run.key in self._cloud.begun:
            return
        found = {}
        for host in run.hosts:
            assert self._cloud.lands(host, {run.trait}), f"a trial's guest cannot land on {host}"
            outcome = "FAIL" if host in self._cloud.failing else "PASS"
            found[host] = outcome, self._cloud.hosts[host].fingerprint
        self._cloud.begun[run.key] = found
        self._cloud.save()
        self._cloud.steps.done()

    def runs(self, keys):
        found = {}
        for key in keys:
            if key in self._cloud.begun:
                outcomes = self._cloud.begun[key].items()
                found[key] = {host: clouds.JudgedHost(outcome) for host, (outcome, _) in outcomes}
        return found

    def stop(self):
        """Nothing runs."""


def command_line(policy, url):
    """Return the parsed command line, with all that it needs imported: processes shall begin quickly."""
    parser = cloud_admit.Admit(mock.Mock(), None).get_parser("admit")
    words = ["--watch", "--policy", policy, "--database", url, "--canary-flavor", "tiny"]
    args = parser.parse_args(words)
    args.interval = 0.001
    admission_policy.load(policy)
    store.AdmissionStore(url).close()
    return args


def fork(path, args, last=None):
    """Begin ``admit --watch`` in a process; return its number.

    :param args: see :func:`command_line`.
    :param last: number of the step after which it is killed; None: it ends by itself.
    """
    number = os.fork()
    if number:
        return number
    code = 99
    try:
        code = _watch(path, args, Steps(last))
    finally:
        os._exit(code)


def _watch(path, args, steps):
    cloud = FileCloud(path, steps)
    right = store.AdmissionStore.write

    def write(this, moves):
        right(this, moves)
        steps.done()

    with (
        mock.patch.object(openstack_cloud, "OpenStackCloud", lambda *_words: cloud),
        mock.patch.object(fleet_validator, "FleetValidator", lambda *_words: FileValidator(cloud)),
        mock.patch.object(store.AdmissionStore, "write", write),
    ):
        run = cloud_admit_run.AdmitRun(args, mock.Mock(), (), lambda text: print(text, flush=True))
        return run.run()


def end_state(path, url):
    """Return what holds in cloud and store, without times and names of trials."""
    cloud = FileCloud(path)
    hosts = {}
    for name, host in cloud.hosts.items():
        hosts[name] = host.enabled, host.reason, sorted(host.traits), sorted(host.mirrored)
    kept = store.AdmissionStore(url)
    try:
        for name, record in kept.records().items():
            verdict = record.verdict and (record.verdict.outcome, record.verdict.fingerprint)
            hosts[name] += record.state, record.cause, record.served, record.token, verdict
        left = kept.stopped(), cloud.aggregates(), cloud.trial_traits()
    finally:
        kept.close()
    return hosts, left, cloud.early
