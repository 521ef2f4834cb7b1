# SPDX-License-Identifier: Apache-2.0
"""An agent on a simulated host: its passes one by one, or its loop."""

import contextlib
import errno
import os
import pathlib
import shutil
import tempfile
import threading
import time
import types

from nova_perf_tuning.agent import findings, reconcile, rewrite_limit, service, sources
from nova_perf_tuning.host.transaction import journal
from tests.support import simulated, sysroots, testcase

#: Tries of one write within a pass.
TRIES = 3
#: Seconds in which what is to happen at once does, also on a machine that is busy.
SOON_S = 600.0


class OneJournal:
    """A journal that stays open between the passes: hundreds of histories take long enough."""

    def __init__(self, journal):
        self._journal = journal

    def writing(self):
        return contextlib.nullcontext(self._journal)

    ending = writing

    def changed(self):
        return False


class Bench:
    """A simulated host with an agent and its journal."""

    def __init__(self):
        self.directory = tempfile.mkdtemp(prefix="nova-perf-agent-", dir=sysroots.workplace())
        self.host = simulated.Simulated()
        self.now = 0.0
        #: How often something happened, and how often time passed in which a pause may have ended.
        self.changes = 1
        self.waits = 0
        self._open()

    def _open(self):
        self.journal = journal.Journal(
            os.path.join(self.directory, "state"), self.directory, writer=True
        )
        session = OneJournal(self.journal)
        self.agent = reconcile.Reconciler(
            self.host, session, rewrite_limit.RewriteLimit(), clock=lambda: self.now
        )

    def close(self):
        self.journal.close()
        shutil.rmtree(self.directory)

    def happen(self, event):
        name, *arguments = event
        if name == "passes":
            for _ in range(arguments[0]):
                self.agent.reconcile()
        elif name == "event":
            self.changes += 1
            self.agent.retry_refused()
            self.agent.reconcile(excused=True)
        elif name == "time":
            self.wait(30.0)
        elif name == "agent killed":
            self.changes += 1  # it does not remember what was refused
            self.journal.close()
            self._open()
        else:
            self.changes += 1
            getattr(self.host, name)(*arguments)

    def wait(self, seconds):
        self.waits += 1
        self.now += seconds

    def settle(self):
        """Give the agent the time that its longest pause takes."""
        self.agent.retry_refused()
        for _ in range(4):
            self.wait(2000.0)
            self.agent.reconcile()

    def wrong(self):
        """Return what the plan wants and the host does not hold, but for what the kernel refuses for good."""
        kinds, facts = self.host.kinds(), self.host.facts()
        refused = {
            f"irq:{number}" for number, (_error, lasting) in self.host.refuses.items() if lasting
        }
        return [
            f"{setting.kind} {setting.target} is {setting.current}, planned {setting.value}"
            for setting in self.host.plan(
                facts, self.agent.refusals.known(facts, self.host.boot())
            ).settings
            if setting.target not in refused
            and not setting.identity.endswith("|")
            and not kinds[setting.kind].holds(setting.target, setting.value, setting.current)
        ]


class BenchCase(testcase.TestCase):
    """Has a bench of its own; :meth:`open` gives it a new one."""

    def setUp(self):
        super().setUp()
        self.open()

    def open(self):
        self.bench = Bench()
        self.addCleanup(self.bench.close)


class SlowHost(simulated.Simulated):
    """One whose facts take as long as a test wants, and whose interrupts can be stubborn."""

    def __init__(self):
        self.meanwhile = lambda: None
        self.takes_writes = True
        super().__init__()

    def facts(self):
        self.meanwhile()
        return super().facts()

    def kinds(self):
        kinds = super().kinds()
        if not self.takes_writes:
            kinds["irq_affinity"].write = self._refuse
        return kinds

    @staticmethod
    def _refuse(_target, _value):
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))


class Told(sources.Source):
    """Events of one kind, sent through a pipe; with ``forever`` each is sent again and again."""

    def __init__(self, kind, forever=False):
        self.kind, self.forever = kind, forever
        self.out, self.into = os.pipe()
        os.set_blocking(self.out, False)

    def tell(self):
        os.write(self.into, b"x")

    def fileno(self):
        return self.out

    def drain(self):
        if not self.forever:
            os.read(self.out, 4096)
        return {self.kind}

    def close(self):
        os.close(self.out)
        os.close(self.into)


class LoopCase(testcase.TestCase):
    """Runs an agent's loop on a simulated host."""

    def setUp(self):
        super().setUp()
        bench = Bench()
        self.addCleanup(bench.close)
        self.host = bench.host = SlowHost()
        self.reconciler = reconcile.Reconciler(
            self.host, OneJournal(bench.journal), rewrite_limit.RewriteLimit()
        )
        directory = tempfile.TemporaryDirectory(prefix="nova-perf-loop-", dir=sysroots.workplace())
        self.root = pathlib.Path(self.enterContext(directory))
        self.daemons = findings.CompetingDaemons(str(self.root))
        for number in range(24, 64):
            (self.root / f"proc/irq/{number}").mkdir(parents=True)

    def serve(self, **options):
        """Return an agent that has made its first pass."""
        intervals = ("interval", "verify_interval", "passthrough_interval")
        timing = types.SimpleNamespace(**{name: options.pop(name, 3600.0) for name in intervals})
        agent = service.Service(
            self.reconciler,
            sources.Poller(str(self.root)),
            timing,
            str(self.root),
            self.daemons,
            **options,
        )
        self.addCleanup(agent.close)
        agent.add(sources.GuestWatch(str(self.root)))
        agent.make_pass({"start"})
        return agent

    def until(self, agent, condition, seconds=SOON_S):
        """Let the loop run until something is so; a waker ends a wait that would outlast the test."""
        stop = threading.Event()

        def wake():
            while not stop.wait(seconds + 1.0):
                agent.waker.wake("test")

        thread = threading.Thread(target=wake)
        thread.start()
        deadline = time.monotonic() + seconds
        try:
            while not condition():
                if time.monotonic() > deadline:
                    return False
                agent.turn()
            return True
        finally:
            stop.set()
            thread.join()

    def nic_vectors(self):
        return [
            number
            for number, vector in sorted(self.host.vectors.items())
            if "eth0" in (vector.name or "")
        ]

    def vector(self):
        """The number of a passed-through device's vector."""
        return min(
            number for number, vector in self.host.vectors.items() if "vfio" in (vector.name or "")
        )
