# SPDX-License-Identifier: Apache-2.0
"""Every guard by itself: what trips it and what does not; and what is read of a host for them."""

import functools

from nova_perf_tuning.validation.judge import trial_filter
from nova_perf_tuning.validation.measure import host_environment, sampling
from nova_perf_tuning.validation.results import reasons
from tests.support import directories, samples, testcase

C = reasons.ReasonCode

#: Conditions of all trials of both arms, of every second one of the judged arm in place of them; the
#: budget's limits -> what is found.
CASES = (
    ({}, {"steal_share": 0.05}, {}, None),
    ({}, {"steal_share": 0.06}, {}, C.STEAL),
    ({}, {"steal_share": 0.06}, {"max_steal": 0.1}, None),
    ({}, {"throttle_events": 0.0}, {}, None),
    ({}, {"throttle_events": 3.0}, {}, C.THROTTLING),
    ({"max_mhz": 3000.0}, {"max_mhz": 3000.5}, {}, None),
    ({"max_mhz": 3000.0}, {"max_mhz": 2000.0}, {}, C.FREQUENCY_LIMIT),
    ({"clock_step_s": 0.01}, {"clock_step_s": -0.05}, {}, None),
    ({"clock_step_s": 0.01}, {"clock_step_s": -0.06}, {}, C.CLOCK_STEP),
    ({}, {"sender_packets": 1e5, "sender_dropped": 50.0}, {}, None),
    ({}, {"sender_packets": 1e5, "sender_dropped": 500.0}, {}, C.DROPS),
    ({}, {"sender_packets": 1.0, "sender_dropped": 1.0}, {"max_drops": 0.6}, C.DROPS),
)


class GuardTest(testcase.TestCase):
    def found(self, trials, limits=None, accelerator=None):
        limits = trial_filter.Limits(**(limits or {}))
        return {
            run[2]: fault
            for run, fault in trial_filter.faults(trials, accelerator, limits).items()
        }

    def trials(self, usual, changed=None):
        some = [
            samples.trial(arm=("host", "tuned")[at % 2], order=at, conditions=dict(usual))
            for at in range(8)
        ]
        for trial in some[3::4]:
            trial.conditions = {**usual, **(changed or {})}
        return some

    def test_trials_under_other_conditions_are_excluded(self):
        for usual, changed, limits, code in CASES:
            with self.subTest(usual=usual, changed=changed, limits=limits):
                found = self.found(self.trials({"x": 0.0, **usual}, changed), limits)
                self.assertEqual({code} - {None}, {fault.code for fault in found.values()})
                if code is not None:
                    self.assertEqual({3, 7}, set(found))

    def test_share_of_packets_that_were_dropped(self):
        """Of all that were to be sent: those that were, and those that were not."""
        for sent, dropped, share in ((300.0, 100.0, 0.25), (0.0, 1.0, 1.0)):
            with self.subTest(sent=sent):
                trials = self.trials({"sender_packets": sent, "sender_dropped": dropped})
                found = self.found(trials)
                self.assertEqual(
                    {(C.DROPS, share)}, {(why.code, why.params["share"]) for why in found.values()}
                )

    def test_waiting_vcpus(self):
        """Under emulation all arms wait alike."""
        trials = self.trials({})
        for trial in trials[1::2]:
            trial.wait_s = 4.0  # half of the time wanted
        for accelerator, limit, code in (
            ("kvm", None, C.WAITING_VCPUS),
            (None, None, C.WAITING_VCPUS),
            ("tcg", None, None),
            ("tcg", 0.3, C.WAITING_VCPUS),
            ("kvm", 0.6, None),
            ("kvm", 0.0, C.WAITING_VCPUS),
        ):
            with self.subTest(accelerator):
                found = self.found(trials, accelerator=accelerator, limits={"max_wait": limit})
                self.assertEqual(
                    {code} - {None}, {fault.code for fault in found.values()}, accelerator
                )

    def test_arms_at_different_frequencies(self):
        for tuned, codes in (
            ({"busy_mhz": 2900.0}, set()),
            ({"busy_mhz": 2500.0}, {C.FREQUENCY_GAP}),
            ({}, set()),
        ):
            with self.subTest(tuned):
                trials = self.trials({})
                for trial in trials:
                    trial.conditions = {"busy_mhz": 3000.0} if trial.arm == "host" else tuned
                self.assertEqual(codes, {fault.code for fault in self.found(trials).values()})


class CircumstancesTest(directories.DirectoryCase):
    """What is read of a host, from a tree of files that a test changes as a kernel would."""

    def setUp(self):
        super().setUp()
        self.root = str(self.directory)
        self.write_file("proc/stat", "cpu0 100 0 100 800 0 0 0 0 0 0\n")
        for cpu in (0, 1):
            self.write_file(
                f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", "5"
            )
            self.write_file(
                f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq", "3000000"
            )
        self.write_file("sys/class/net/tap0/statistics/rx_packets", "1000")
        self.write_file("sys/class/net/tap0/statistics/rx_dropped", "7")

    def look(self):
        return host_environment.look("tap0", self.root)

    def test_conditions_of_a_quiet_host_are_zero(self):
        found = host_environment.conditions(self.look(), self.look())
        self.assertTrue(abs(found.pop("clock_step_s")) < 1)
        still = {
            "max_mhz": 3000.0,
            "sender_dropped": 0.0,
            "sender_packets": 0.0,
            "throttle_events": 0.0,
        }
        self.assertEqual(still, found)

    def test_conditions_tell_what_happened_on_the_host(self):
        before = self.look()
        self.write_file("proc/stat", "cpu0 100 0 100 850 0 0 0 50 0 0\n")
        self.write_file("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "8")
        self.write_file("sys/class/net/tap0/statistics/rx_packets", "3000")
        self.write_file("sys/class/net/tap0/statistics/rx_dropped", "17")
        found = host_environment.conditions(before, self.look())
        self.assertEqual((0.5, 3.0), tuple(found[n] for n in ("steal_share", "throttle_events")))
        self.assertEqual(
            (2000.0, 10.0), tuple(found[n] for n in ("sender_packets", "sender_dropped"))
        )

    def stat(self, *spent):
        """Write (busy, idle, stolen) of each CPU."""
        lines = [
            f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\n"
            for cpu, (busy, idle, stolen) in enumerate(spent)
        ]
        self.write_file("proc/stat", "".join(lines))
        return self.look()

    def test_steal_from_few_of_many_cpus(self):
        before = self.stat(*[(0, 0, 0)] * 64)
        after = self.stat(*[(200, 0, 200)] * 4, *[(0, 400, 0)] * 60)
        found = host_environment.conditions(before, after)
        self.assertEqual(0.5, found["steal_share"])
        busy = self.stat(*[(200, 0, 200)] * 4, *[(400, 0, 0)] * 60)
        self.assertEqual(0.03125, host_environment.conditions(before, busy)["steal_share"])

    def test_frequency_in_the_window_of_the_cpus_that_worked(self):
        for cpu in range(4):
            self.write_file(
                f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq",
                str(1_000_000 * (1 + cpu)),
            )
        series = sampling.CounterSeries(
            functools.partial(host_environment.mhz_by_cpu, self.root), 1.0
        )
        for _ in range(3):
            series.take()
        for cpu in range(4):  # and now they rest
            self.write_file(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", "800000")
        series.take()
        before, after = self.stat(*[(0, 0, 0)] * 4), self.stat(*[(n, 9, 0) for n in (1, 4, 5, 9)])
        self.assertEqual(
            3500.0, host_environment.conditions(before, after, series.means())["busy_mhz"]
        )
        self.assertNotIn("busy_mhz", host_environment.conditions(before, before, series.means()))

    def test_a_host_that_tells_nothing(self):
        found = host_environment.conditions(
            *[host_environment.look("tap0", f"{self.root}/dev") for _ in range(2)]
        )
        self.assertEqual(["clock_step_s"], list(found))
