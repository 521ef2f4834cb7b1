"""Who else writes: programs that run, and what systemd's .link files say."""

from __future__ import annotations

import os
import pathlib
import subprocess
import tempfile
from unittest import mock

import testtools

from nova_perf_tuning.host import irqbalance
from nova_perf_tuning.host.transaction import rivals

ETC, RUN, LOCAL, USR = (f"{one}/systemd/network" for one in ("etc", "run", "usr/local/lib", "usr/lib"))
SPREAD = "[Match]\nDriver=ice\n\n[Link]\nIRQAffinityPolicy=spread\nIRQAffinity=0-3\n"


class RivalsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory(prefix="nova-perf-rivals-")
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)

    def put(self, path, text):
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def links(self):
        return rivals.placing_links(str(self.root))

    def program(self, *words, **options):
        """Start a process that is named irqbalance."""
        code = "echo irqbalance >/proc/$$/comm; echo ready; read -r line"
        process = subprocess.Popen(
            ["sh", "-c", code, *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options
        )
        for clean in (process.stdout.close, process.stdin.close, process.wait, process.kill):
            self.addCleanup(clean)
        self.assertEqual("ready\n", process.stdout.readline())
        return process.pid

    def test_a_name_that_anybody_may_take_is_no_rival(self):
        if os.geteuid() == 0:
            stranger = self.program(user=65534)
        else:
            stranger = self.program()
            self.enterContext(mock.patch.object(os, "geteuid", lambda: 65534))
        self.assertNotIn(stranger, rivals.running().values())

    def test_an_irqbalance_with_our_script_comes_first(self):
        self.program("x", "--policyscript=/x/irqbalance-policy-nova-perf")
        self.program("x", "--policyscript=/x/theirs")
        self.assertTrue(irqbalance.uses_our_script(rivals.running()["irqbalance"]))

    def test_no_files(self):
        self.assertEqual({}, self.links())
        self.put(f"{ETC}/10-lan.link", "[Match]\nDriver=ice\n[Link]\nMTUBytes=9000\n")
        self.put(f"{ETC}/10-lan.network", SPREAD)
        self.assertEqual({}, self.links())

    def test_every_folder_is_looked_into(self):
        for number, folder in enumerate((ETC, RUN, LOCAL, USR)):
            self.put(f"{folder}/{number}-lan.link", SPREAD)
        expected = {
            f"/{folder}/{number}-lan.link": "spread" for number, folder in enumerate((ETC, RUN, LOCAL, USR))
        }
        self.assertEqual(expected, self.links())

    def test_the_first_of_one_name_counts(self):
        self.put(f"{USR}/10-lan.link", SPREAD)
        self.put(f"{RUN}/10-lan.link", SPREAD.replace("spread", "single"))
        self.assertEqual({f"/{RUN}/10-lan.link": "single"}, self.links())
        self.put(f"{ETC}/10-lan.link", "[Match]\nDriver=ice\n")
        self.assertEqual({}, self.links())

    def test_masked(self):
        self.put(f"{USR}/10-lan.link", SPREAD)
        self.put(f"{USR}/10-lan.link.d/a.conf", "[Link]\nIRQAffinityPolicy=single\n")
        self.put(f"{ETC}/10-lan.link", "")
        self.assertEqual({}, self.links())

    def test_drop_ins(self):
        self.put(f"{USR}/10-lan.link", "[Match]\nDriver=ice\n")
        self.put(f"{RUN}/10-lan.link.d/50-irq.conf", "[Link]\nIRQAffinityPolicy = single\n")
        self.assertEqual({f"/{RUN}/10-lan.link.d/50-irq.conf": "single"}, self.links())
        self.put(f"{ETC}/10-lan.link.d/60-irq.conf", "[Link]\nIRQAffinityPolicy=\n")
        self.assertEqual({}, self.links())
        self.put(f"{ETC}/10-lan.link.d/60-irq.conf", "# nothing\n")
        self.put(f"{ETC}/10-lan.link.d/50-irq.conf", "[Link]\nIRQAffinityPolicy=spread\n")
        self.assertEqual({f"/{ETC}/10-lan.link.d/50-irq.conf": "spread"}, self.links())

    def test_only_what_counts_there(self):
        for text in (
            "IRQAffinityPolicy=spread\n",
            "[Match]\nIRQAffinityPolicy=spread\n",
            "[Link]\n#IRQAffinityPolicy=spread\n",
            "[Link]\nIRQAffinity=0-3\nIRQAffinityNUMA=auto\n",
            "[Link]\nIRQAffinityPolicyX=spread\n",
            "[Link]\nIRQAffinityPolicy=spread\n[Link]\nIRQAffinityPolicy=\n",
        ):
            self.put(f"{ETC}/10-lan.link", text)
            self.assertEqual({}, self.links(), text)
        self.put(f"{ETC}/10-lan.link", "[Link]\nIRQAffinityPolicy=\\\nspread\n")
        self.assertEqual({f"/{ETC}/10-lan.link": "spread"}, self.links())

    def test_what_is_told_of_them(self):
        lookout = rivals.Lookout(str(self.root))
        self.assertEqual([], lookout.findings())
        self.put(f"{ETC}/10-lan.link", SPREAD)
        self.assertEqual([], lookout.findings())
        # They are read again when it is asked who runs.
        lookout.likely("irq_affinity")
        (found,) = lookout.findings()
        self.assertEqual(("rival", f"/{ETC}/10-lan.link"), (found["what"], found["file"]))
        self.assertIn("IRQAffinityPolicy=spread: systemd-udevd", found["detail"])

    def test_who_runs_is_remembered_for_a_while(self):
        self.put("proc/77/comm", "tuned\n")
        lookout = rivals.Lookout(str(self.root))
        self.assertEqual("tuned (pid 77)", lookout.likely("irq_affinity"))
        self.put("proc/78/comm", "irqbalance\n")
        self.assertEqual("tuned (pid 77)", lookout.likely("irq_affinity"))
        self.assertEqual("a program that is not known", lookout.likely("vhost"))
        both = rivals.Lookout(str(self.root))
        self.assertEqual("irqbalance (pid 78) or tuned (pid 77)", both.likely("irq_affinity"))
