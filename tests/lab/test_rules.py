# SPDX-License-Identifier: Apache-2.0
"""Rules of the audit that want hardware: found, applied, read by another program, verified and undone.

A machine without NICs and kvm of its own cannot show them; the other rules that can be applied are in
``tests/functional/transaction/test_every_rule.py``. Staged is what a rule takes for evidence only, such as packets
that were lost: what is written, and what it holds before and after, is the kernel's own.
"""

from typing import Any

from lxml import etree

from nova_perf_tuning import cpulist
from tests.lab import rig

_STATE = "/run/lab/rules"


class RulesTest(rig.LabCase):
    def setUp(self):
        super().setUp()
        self.lab.run(f"rm -rf {_STATE}")

    def found(self, rule: str) -> list[Any]:
        """Return the findings of one rule, which must be able to judge this host."""
        _code, answer = self.nova_perf("audit", "--rule", rule)
        self.assertEqual(([], [], []), (answer["unknown"], answer["failed"], answer["warnings"]))
        self.assertEqual([] if answer["findings"] else [rule], answer["clean"])
        return answer["findings"]

    def settings(self, rule: str) -> list[tuple[str, str, str, str]]:
        """Return kind, target, present and proposed value of what one rule would write."""
        return [
            (each["kind"], each["target"], each["current"], each["value"])
            for entry in self.found(rule)
            for each in entry["settings"]
        ]

    def state(self, *words: str) -> tuple[int, list[tuple[str, str]]]:
        """Return the exit code of ``apply``, ``verify`` or ``restore``, and what it says of each setting."""
        code, answer = self.nova_perf(*words, "--state-dir", _STATE)
        self.assertEqual([], answer.get("warnings", []))
        return code, sorted(
            (setting["target"], setting.get("state") or setting["result"])
            for setting in answer["settings"]
        )

    def await_link(self, nic: str | None) -> None:
        """Wait until a NIC is up again: one that is down is judged by no rule."""
        if nic:
            command = f"cat /sys/class/net/{nic}/carrier /sys/class/net/{nic}/operstate"
            self.until(
                lambda: self.lab.ask("run", command) == [0, "1\nup\n"], f"{nic} is up", note=False
            )

    def round_trip(
        self, rule: str, settings: list[tuple[str, str, str, str]], show: str, put: str, *,
        nic: str | None = None, left: int = 0,
    ) -> None:  # fmt: skip
        """Find, apply, verify and undo, with a hand that changes it in between.

        :param settings: kind, target, original and what the rule proposes; the values are the same for all.
        :param show: a command of others that prints all there is of it; :param put: one that sets a value.
        :param left: findings that stay, with nothing more to write.
        """
        _kind, _target, original, proposed = settings[0]

        def each(state: str) -> list[tuple[str, str]]:
            return [(target, state) for _kind, target, _original, _proposed in settings]

        before = self.lab.run(show)
        self.assertEqual(settings, self.settings(rule))
        self.assertEqual((0, each("written")), self.state("apply", "--rule", rule))
        self.await_link(nic)
        applied = self.lab.run(show)
        self.assertNotEqual(before, applied)
        self.assertEqual([[]] * left, [entry["settings"] for entry in self.found(rule)])
        self.assertEqual((0, each("holds")), self.state("verify"))

        self.lab.run(put.format(original))
        self.assertEqual(before, self.lab.run(show))
        self.assertEqual((1, each("drifted")), self.state("verify"))
        self.lab.run(put.format(proposed))
        self.assertEqual(applied, self.lab.run(show))

        self.assertEqual((0, each("restored")), self.state("restore"))
        self.assertEqual(before, self.lab.run(show))
        self.assertEqual((0, []), self.state("verify"))
        self.await_link(nic)
        self.assertEqual(settings, self.settings(rule))
        was, now = ([line for line in dict.fromkeys(one.splitlines()) if line not in other.splitlines()]
                    for one, other in ((before, applied), (applied, before)))  # fmt: skip
        print(f"NOTE: lab, kernel {self.lab.release}: {rule}: {was} became {now}, and is back")

    def test_small_rings_are_found_and_enlarged(self):
        """A NIC with 256 of 4096 descriptors; that it has lost packets is staged, and stays counted."""
        counter = "/sys/class/net/igb0/statistics/rx_missed_errors"
        self.assertEqual([], self.found("ring-drops"))
        self.lab.ask("put", "/run/lab/lost", "400\n")
        self.lab.run(f"mount --bind /run/lab/lost {counter}")
        self.addCleanup(self.lab.run, f"umount {counter}")
        self.round_trip(
            "ring-drops",
            [("ring", "igb0/rx", "256", "2048")],
            "ethtool -g igb0; ethtool -k igb0; ethtool -l igb0",
            "ethtool -G igb0 rx {}",
            nic="igb0",
            left=1,
        )

    def test_lro_below_a_bond_is_found_and_switched_off(self):
        """A NIC with LRO below a bond. In a bridge this kernel itself turns LRO off and keeps it off."""
        self.lab.run("modprobe vmxnet3 && udevadm settle")
        self.addCleanup(self.lab.run, "modprobe -r vmxnet3")
        nic = self.lab.run("basename /sys/bus/pci/drivers/vmxnet3/*/net/*").strip()
        show = f"ethtool -k {nic}; ethtool -g {nic}; ethtool -l {nic}"
        lro = "large-receive-offload: "
        self.lab.run(f"ip link set {nic} up")
        self.await_link(nic)
        self.assertIn(f"{lro}on\n", self.lab.run(show))
        unknown = self.nova_perf("audit", "--rule", "lro-on-forwarding")[1]["unknown"]
        self.assertEqual(["not_applicable"], [rule["code"] for rule in unknown])

        self.lab.run("ip link add rules0 type bridge")
        self.addCleanup(self.lab.run, "ip link del rules0")
        self.lab.run(f"ip link set {nic} master rules0")
        self.assertIn(f"{lro}off", self.lab.run(show))
        self.lab.ask("run", f"ethtool -K {nic} lro on")
        self.assertIn(f"{lro}off", self.lab.run(show))
        self.assertEqual([], self.found("lro-on-forwarding"))
        # Off first: the kernel keeps what was asked for, and asking for the same again does nothing.
        self.lab.run(f"ip link set {nic} nomaster && ethtool -K {nic} lro off")
        self.lab.run(f"ethtool -K {nic} lro on && ip link set {nic} down")

        self.lab.run(
            "modprobe bonding max_bonds=0 && ip link add rules1 type bond mode active-backup"
        )
        self.addCleanup(self.lab.run, "ip link del rules1 && modprobe -r bonding")
        self.lab.run(f"ip link set {nic} master rules1 && ip link set rules1 up")
        self.await_link(nic)
        settings = [("offload", f"{nic}/rx-lro", "on", "off")]
        self.round_trip("lro-on-forwarding", settings, show, f"ethtool -K {nic} lro {{}}", nic=nic)

    def test_governor_is_found_and_set(self):
        """Frequency domains by the kernel's acpi-cpufreq; the firmware that has two is staged."""
        self.lab.run("modprobe acpi_cpufreq")
        self.addCleanup(self.lab.run, "modprobe -r acpi_cpufreq")
        files = "/sys/devices/system/cpu/cpufreq/policy*/scaling_governor"
        settings = [("governor", f"policy{cpu}", "schedutil", "performance") for cpu in range(8)]
        self.round_trip(
            "cpu-governor",
            settings,
            f"cat {files}",
            f"for file in {files}; do echo {{}} >$file; done",
        )

    def drawn(self) -> dict[str, set[int]]:
        """Return the CPUs that serve each NIC in a picture of the host."""
        self.nova_perf("topology", "--svg", "/run/host.svg")
        picture = etree.fromstring(self.lab.run("cat /run/host.svg").encode())
        return {
            nic.get("data-nic"): cpulist.parse(nic.get("data-cpus"))
            for nic in picture.iter("{*}g")
            if nic.get("data-nic")
        }

    def test_an_apply_is_seen_in_the_picture(self):
        """NICs of node 1 are served from node 0, then by their own CPUs."""
        self.without_vfs()
        for irq in self.lab.run(
            "ls /sys/class/net/nic1/device/../msi_irqs /sys/class/net/igb1/device/msi_irqs"
        ).split():
            if irq.isdigit():
                self.lab.ask("run", f"echo 0 >/proc/irq/{irq}/smp_affinity_list")
        before = self.drawn()
        self.assertEqual(({0}, {0}), (before["nic1"], before["igb1"]))
        self.assertEqual(0, self.nova_perf("apply", "--state-dir", _STATE)[0])
        after = self.drawn()
        self.assertEqual(({4, 5, 6, 7}, {4, 5, 6, 7}), (after["nic1"], after["igb1"]))
        self.assertEqual(0, self.nova_perf("restore", "--state-dir", _STATE)[0])
        back = self.drawn()
        self.assertEqual(({0}, {0}), (back["nic1"], back["igb1"]))
