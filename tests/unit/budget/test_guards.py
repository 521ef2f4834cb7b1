"""Every guard by itself: what trips it, what does not, and what the verdict says then."""

import dataclasses
import os
import statistics
import threading
import time

import fixtures
import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.budget import budget_file, frequency, guards, host_environment, verdict
from tests.unit.budget import samples

V = verdict.Verdict


def judged(data, limits=None, **fields):
    fields = {"benchmark": "iperf3", "arm": "tuned", "max_loss": 0.15, **fields}
    return verdict.judge(data, budget_file.Budget(**fields, guards=limits or guards.Limits()))


CONDITIONS = strategies.fixed_dictionaries(
    {},
    optional={
        "steal_share": strategies.sampled_from([0.0, 0.05, 0.06]),
        "steal_of_busy": strategies.sampled_from([0.0, 0.05, 0.06]),
        "busy_mhz": strategies.sampled_from([1000.0, 1040.0, 2000.0]),
        "throttle_events": strategies.integers(0, 1),
        "mhz": strategies.sampled_from([1000.0, 1040.0, 2000.0]),
        "max_mhz": strategies.sampled_from([1000.0, 1000.5, 2000.0]),
        "link:eth0": strategies.sampled_from([0.0, 100.0, 1000.0]),
        "sender_packets": strategies.just(100.0),
        "sender_dropped": strategies.integers(0, 1),
        "clock_step_s": strategies.sampled_from([-1.0, 0.0, 1.0]),
        "clocksource_changed": strategies.integers(0, 1),
    },
)


class PossibleTest(testtools.TestCase):
    @hypothesis.given(strategies.lists(CONDITIONS, min_size=1, max_size=6), strategies.sampled_from([None, 500.0]))
    def test_what_is_not_possible_never_happens(self, conditions, link):
        arms = ("host", "tuned")
        trials = [
            samples.trial(arm=arms[order % 2], order=order, conditions=one, wait_s=float(order % 2))
            for order, one in enumerate(conditions)
        ]
        for accelerator in ("kvm", "tcg"):
            known = guards.context(trials, {"accelerator": accelerator}, guards.Limits(), link, {0: 99.0})
            for guard in guards.GUARDS:
                if any(guard.fault(one, known) for one in trials):
                    self.assertTrue(guard.possible(known), guard)


class ContextTest(testtools.TestCase):
    def test_conditions_that_every_trial_names_otherwise(self):
        """As many names as trials took names times trials, minutes for a file of a few MiB."""
        trials = [
            samples.trial(order=order, conditions={f"link:e{order}_{port}": 1000.0 for port in range(18)})
            for order in range(4000)
        ]
        begun = time.process_time()
        known = guards.context(trials, {}, guards.Limits(), None, {})
        self.assertEqual(3999, len(guards.faults(trials, known)))
        self.assertTrue(time.process_time() - begun < 5)
        self.assertEqual((7, 1000.0), (known.links["link:e7_0"], known.first["link:e7_0"]))

    @hypothesis.given(strategies.lists(CONDITIONS, max_size=6))
    def test_what_it_knows(self, conditions):
        trials = [samples.trial(arm="tuned", order=order, conditions=one) for order, one in enumerate(conditions)]
        known = guards.context(trials, {}, guards.Limits(), None, {})
        seen = {name: [one[name] for one in conditions if name in one] for one in conditions for name in one}
        self.assertEqual({name: values[0] for name, values in seen.items()}, known.first)
        self.assertEqual({name: (min(values), max(values)) for name, values in seen.items()}, known.ranges)
        lacking = "link:eth0" in seen and any(one and "link:eth0" not in one for one in conditions)
        order = next((order for order, one in enumerate(conditions) if "link:eth0" in one), 0)
        self.assertEqual({"link:eth0": order} if lacking else {}, known.links)
        speeds = seen.get("busy_mhz") or seen.get("mhz")
        self.assertEqual({"tuned": statistics.median(speeds)} if speeds else {}, known.mhz)


class GuardTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.data = samples.results({"host": 1000.0, "tuned": 900.0}, groups=4, blocks=4)
        self.assertEqual(V.PASS, judged(self.data).verdict)

    def set(self, arm="tuned", every=1, **conditions):
        mine = [one for one in self.data.trials if arm in (one.arm, None)]
        for one in mine[::every]:
            one.conditions = {**one.conditions, **conditions}

    def check(self, told, limits=None, **fields):
        found = judged(self.data, limits, **fields)
        self.assertEqual(V.INVALID, found.verdict, found.reasons)
        self.assertIn(told, found.reasons[-1])

    def test_steal(self):
        self.set(steal_share=0.04)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(steal_share=0.2)
        self.check(
            "16 of 16 trials of 'tuned' do not count (limit 20%): steal: the host's CPUs were taken away 20%"
        )
        self.assertEqual(V.PASS, judged(self.data, guards.Limits(max_steal=0.3)).verdict)

    def test_steal_of_the_time_wanted(self):
        """On a large host a share of all time is small whatever happens to a guest."""
        self.set(steal_share=0.03, steal_of_busy=0.04)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(steal_share=0.03, steal_of_busy=0.5)
        self.check("steal: the host's CPUs were taken away 50% of the time they were wanted (limit 5%)")

    def test_figure_and_limit_differ_in_words(self):
        self.set(steal_share=0.0501)
        self.check("the host's CPUs were taken away 5.01% of the time (limit 5.00%)")
        self.set(steal_share=0.0, sender_packets=1e6, sender_dropped=1003.0)
        self.check("0.1002% of the sender's packets were dropped on its side (limit 0.1000%)")
        self.set(sender_dropped=0.0, clock_step_s=-0.0504)
        self.check("the clock jumped by -0.0504 s (limit 0.0500 s)")
        self.set(clock_step_s=0.0, **{"link:eth0": 999.6})
        self.check("link eth0 has 999.6 Mbit/s, the budget needs 1000.0", min_link_mbps=1000, link="eth0")
        for one in self.data.trials:
            one.wait_s = 0.4445 if one.arm == "tuned" else None
        self.check("(limit 10.", guards.Limits())

    def test_few_such_trials_are_left_out(self):
        self.set(every=8, steal_share=0.9)
        for one in self.data.trials:
            if one.conditions:
                one.value = 1e-6  # would be seen in the loss
        found = judged(self.data)
        self.assertEqual((V.PASS, 14), (found.verdict, found.loss.n))

    def test_waiting_vcpus(self):
        for one in self.data.trials:
            one.wait_s = 4.0 if one.arm == "tuned" else None
        self.data.environment["accelerator"] = "tcg"
        self.assertEqual(V.PASS, judged(self.data).verdict, "under emulation all arms wait alike")
        self.check("vCPUs waited 50%", guards.Limits(max_wait=0.3))
        for told in ("kvm", "KVM", None):
            self.data.environment["accelerator"] = told
            self.check("vCPUs waited 50% of the time they wanted to run (limit 10%)")

    def test_throttling(self):
        self.set(throttle_events=0)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(throttle_events=3)
        self.check("throttling: CPUs were throttled 3 times")

    def test_frequency(self):
        self.set(arm=None, max_mhz=3000.0, mhz=2990.0)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(mhz=2500.0)
        self.check("frequency change: arms ran at different CPU frequencies: ")
        self.set(mhz=2990.0, every=2, max_mhz=2000.0)
        self.check("highest frequency allowed went from 3000 to 2000 MHz")

    def test_frequency_of_the_cpus_that_worked(self):
        self.set(arm=None, mhz=1500.0, busy_mhz=3000.0)
        self.set(mhz=2500.0)
        self.assertEqual(V.PASS, judged(self.data).verdict, "idle CPUs are no matter")
        self.set(arm=None, mhz=1500.0)
        self.set(busy_mhz=2500.0)
        self.check("frequency change: arms ran at different CPU frequencies: host 3000 MHz, tuned 2500 MHz")

    def test_links(self):
        self.set(arm=None, **{"link:eth0": 25000.0, "link:eth1": 1000.0})
        self.check(
            "link eth1 has 1000 Mbit/s, the budget needs 25000; if it is not measured, name", min_link_mbps=25000
        )
        for link, expected in (("eth0", V.PASS), ("eth*", V.INVALID), ("eth1", V.INVALID), ("bond0", V.INVALID)):
            self.assertEqual(expected, judged(self.data, min_link_mbps=25000, link=link).verdict, link)
        self.check("no link 'bond0' is known on this host", min_link_mbps=25000, link="bond0")
        self.check("link: link eth0 has 25000 Mbit/s, the budget needs 100000", min_link_mbps=100_000, link="eth0")
        self.set(arm=None, **{"link:eth2": 0.0})  # without a carrier all the time: not in use
        self.assertEqual(V.PASS, judged(self.data, min_link_mbps=1000).verdict)
        self.set(every=3, **{"link:eth1": 0.0})
        self.check("link eth1 was down")
        self.set(every=3, **{"link:eth1": 100.0})
        self.check("link eth1 changed from 1000 to 100 Mbit/s")

    def test_a_port_that_is_down_throughout_is_unused(self):
        self.set(arm=None, **{"link:eth0": 25000.0, "link:eth1": 0.0})
        self.assertEqual(V.PASS, judged(self.data, min_link_mbps=25000).verdict)
        self.set(arm=None, **{"link:eth0": 0.0})
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.check("no link's speed is known", min_link_mbps=1000)
        self.set(every=2, **{"link:eth1": 1000.0})
        self.check("link eth1 changed from 0 to 1000 Mbit/s")

    def test_a_link_that_went_away(self):
        self.set(arm=None, **{"link:eth0": 25000.0, "steal_share": 0.0})
        for one in self.data.trials[:4]:  # what comes later is no fault
            del one.conditions["link:eth0"]
        self.assertEqual(V.PASS, judged(self.data).verdict)
        for one in self.data.trials:
            if one.group:
                one.conditions.pop("link:eth0")
        self.check("link: link eth0 was there at first and then no more")

    def test_a_declared_link_that_nobody_saw(self):
        self.check("no link's speed is known on this host", min_link_mbps=1000)

    def test_drops(self):
        self.set(sender_packets=100_000.0, sender_dropped=50.0)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(sender_dropped=5_000.0)
        self.check("drops at the generator: 4.76% of the sender's packets")

    def test_busy_sender_where_a_link_is_declared(self):
        self.set(arm=None, **{"link:eth0": 25000.0})
        for one in list(self.data.trials):
            self.data.trials.append(
                samples.trial(
                    arm=one.arm, group=one.group, block=one.block, order=one.order, metric="client_cpu", unit="%",
                    better="lower", primary=False, value=99.0,
                )
            )  # fmt: skip
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.check("sender CPU-bound: the sending process used 99% of a CPU", min_link_mbps=25000)
        self.check("sender CPU-bound", guards.Limits(max_sender_cpu=0.9))

    def test_a_sender_whose_cpu_is_not_known(self):
        """What a budget file demands and nobody recorded is no PASS, but what has no sender needs none."""
        limits = guards.Limits(max_sender_cpu=0.9)
        self.check("the sending process's CPU (client_cpu in %) is not known", limits)
        for one in list(self.data.trials):
            cpu = {"metric": "client_cpu", "unit": "percent", "better": "lower", "primary": False, "value": 9.0}
            self.data.trials.append(dataclasses.replace(one, **cpu))
        self.check("the sending process's CPU (client_cpu in %) is not known", limits)
        for one in self.data.trials:
            one.unit = "%" if one.metric == "client_cpu" else one.unit
        self.assertEqual(V.PASS, judged(self.data, limits).verdict)
        for one in self.data.trials:
            one.benchmark = "disk"
            one.metric = "server_cpu" if one.metric == "client_cpu" else one.metric
        for kind, expected in (("fio", V.PASS), ("packets", V.INVALID), ("of somebody else", V.INVALID)):
            self.data.environment["benchmarks"] = {"disk": {"kind": kind}}
            self.assertEqual(
                expected, judged(self.data, limits, benchmark="disk", metric="throughput").verdict, kind
            )

    def test_clock(self):
        self.set(clock_step_s=0.01)
        self.assertEqual(V.PASS, judged(self.data).verdict)
        self.set(clock_step_s=-3.0)
        self.check("clock: the clock jumped by -3.00 s")
        self.set(clock_step_s=0.0, clocksource_changed=1)
        self.check("clock: the kernel changed its clock source")

    def test_virtualization_as_declared(self):
        self.check("found themselves on nothing that was recorded, the budget is for kvm", virtualization="kvm")
        self.data.environment["arms"]["tuned"]["virtualization"] = "qemu"
        self.check("guests of 'tuned' found themselves on qemu, the budget is for kvm", virtualization="kvm")
        self.assertEqual(V.PASS, judged(self.data, virtualization="qemu").verdict)


class CircumstancesTest(testtools.TestCase):
    """What is read of a host, from a tree of files that a test changes as a kernel would."""

    def setUp(self):
        super().setUp()
        self.root = self.useFixture(fixtures.TempDir()).path
        self.write("proc/stat", "cpu  100 0 100 800 0 0 0 0 0 0\ncpu0 1 2\n")
        for cpu in (0, 1):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/thermal_throttle/core_throttle_count", "5")
            self.write(f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_cur_freq", "2000000")
            self.write(f"sys/devices/system/cpu/cpufreq/policy{cpu}/scaling_max_freq", "3000000")
        self.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "tsc\n")
        for name, flags, speed in (
            ("eth0", "0x1003", "25000"),
            ("eth1", "0x1002", "10000"),
            ("eth2", "0x1003", "-1"),
        ):
            self.write(f"sys/class/net/{name}/flags", flags)
            self.write(f"sys/class/net/{name}/speed", speed)
            self.write(f"sys/class/net/{name}/carrier", "1")
            self.write(f"sys/class/net/{name}/device/vendor", "0x8086")
        self.write("sys/class/net/tap0/statistics/rx_packets", "1000")
        self.write("sys/class/net/tap0/statistics/rx_dropped", "7")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii") as file:
            file.write(text)

    def look(self):
        return host_environment.look("tap0", self.root)

    def test_nothing_happened(self):
        found = host_environment.conditions(self.look(), self.look())
        self.assertTrue(abs(found.pop("clock_step_s")) < 1)
        self.assertEqual(
            {
                "link:eth0": 25000.0,
                "max_mhz": 3000.0,
                "mhz": 2000.0,
                "sender_dropped": 0.0,
                "sender_packets": 0.0,
                "throttle_events": 0.0,
            },
            found,
        )

    def test_everything_happened(self):
        before = self.look()
        self.write("proc/stat", "cpu  100 0 100 850 0 0 0 50 0 0\n")
        self.write("sys/devices/system/cpu/cpu1/thermal_throttle/core_throttle_count", "8")
        self.write("sys/devices/system/clocksource/clocksource0/current_clocksource", "hpet\n")
        self.write("sys/class/net/eth0/carrier", "0")
        self.write("sys/class/net/tap0/statistics/rx_packets", "3000")
        self.write("sys/class/net/tap0/statistics/rx_dropped", "17")
        found = host_environment.conditions(before, self.look())
        self.assertEqual(
            (0.5, 3.0, 1.0), tuple(found[n] for n in ("steal_share", "throttle_events", "clocksource_changed"))
        )
        self.assertEqual(
            (0.0, 2000.0, 10.0), tuple(found[n] for n in ("link:eth0", "sender_packets", "sender_dropped"))
        )

    def stat(self, *spent):
        """Write (busy, idle, stolen) of each CPU."""
        lines = [
            f"cpu{cpu} {busy} 0 0 {idle} 0 0 0 {stolen} 0 0\n" for cpu, (busy, idle, stolen) in enumerate(spent)
        ]
        total = [sum(some) for some in zip(*spent, strict=True)]
        self.write("proc/stat", f"cpu  {total[0]} 0 0 {total[1]} 0 0 0 {total[2]} 0 0\n{''.join(lines)}")
        return self.look()

    def test_steal_from_few_of_many_cpus(self):
        before = self.stat(*[(0, 0, 0)] * 64)
        after = self.stat(*[(200, 0, 200)] * 4, *[(0, 400, 0)] * 60)
        found = host_environment.conditions(before, after)
        self.assertEqual((0.03125, 0.5), (found["steal_share"], found["steal_of_busy"]))
        busy = self.stat(*[(200, 0, 200)] * 4, *[(400, 0, 0)] * 60)
        self.assertEqual(0.03125, host_environment.conditions(before, busy)["steal_of_busy"])
        self.assertEqual(0.5, host_environment.conditions(before, busy, {0, 1})["steal_of_busy"])
        self.assertEqual(0.03125, host_environment.conditions(before, busy, {63})["steal_of_busy"])

    def test_a_tick_stolen_from_an_idle_host_is_nothing(self):
        found = host_environment.conditions(
            self.stat(*[(0, 0, 0)] * 4), self.stat((3, 396, 1), *[(0, 400, 0)] * 3)
        )
        self.assertEqual(0.0025, found["steal_of_busy"])

    def test_frequency_in_the_window_of_the_cpus_that_worked(self):
        for cpu in range(4):
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", str(1_000_000 * (1 + cpu)))
        until = time.monotonic() + 600.0
        with frequency.Sampler(self.root, 0.001) as sampler:
            while len(sampler._seen) < 4:
                self.assertLess(time.monotonic(), until)
                time.sleep(0.01)
        for cpu in range(4):  # and now they rest
            self.write(f"sys/devices/system/cpu/cpu{cpu}/cpufreq/scaling_cur_freq", "800000")
        busy = host_environment.busy_ticks(
            self.stat(*[(0, 0, 0)] * 4), self.stat(*[(n, 9, 0) for n in (1, 4, 5, 9)])
        )
        self.assertEqual({"busy_mhz": 3500.0}, sampler.conditions(busy))
        self.assertEqual({}, sampler.conditions({}))

    def test_no_frequency_is_no_thread(self):
        empty = self.useFixture(fixtures.TempDir()).path
        before = threading.active_count()
        with frequency.Sampler(empty, 0.001) as sampler:
            self.assertEqual(before, threading.active_count())
        self.assertEqual({}, sampler.conditions({0: 1}))

    def test_a_host_that_tells_nothing(self):
        empty = self.useFixture(fixtures.TempDir()).path
        found = host_environment.conditions(*[host_environment.look("tap0", empty) for _ in range(2)])
        self.assertEqual(["clock_step_s"], list(found))

    def test_this_host(self):
        found = [
            host_environment.conditions(host_environment.look(), host_environment.look()) for _ in range(10)
        ]  # a pause between the looks at both clocks is taken for a step
        self.assertTrue(min(abs(one["clock_step_s"]) for one in found) < 0.05, found)
