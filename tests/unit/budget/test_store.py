"""Results on disk: round trip, atomic writes, hostile files."""

import bz2
import gzip
import itertools
import json
import lzma
import os
import stat
import subprocess
import sys

import fixtures
import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning import whole_file
from nova_perf_tuning.budget import schema, store
from tests.unit.budget import samples


def pairs(count):
    """Return pairs of hosts as a run over many has them."""
    rest = {"state": "done", "attempts": 1, "seconds": 60.0, "errors": [], "figures": []}
    return [{"number": one, "client": f"c{one}", "server": f"c{one + 1}", **rest} for one in range(count)]


class StoreTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        self.path = os.path.join(self.folder, "results.json")

    def load(self, text):
        with open(self.path, "w", encoding="utf-8", errors="surrogatepass") as file:
            file.write(text)
        return store.load(self.path)

    def document(self):
        return json.loads(json.dumps(store.to_dict(samples.results({"host": 3.0, "tuned": 2.0}))))

    def test_round_trip(self):
        data = samples.results({"host": 3.0, "tuned": 2.0}, accelerator="tcg")
        lost = {"value": None, "error": "guest lost", "guest_cpu_s": None, "wait_s": None, "work": None}
        data.trials.append(samples.trial(order=len(data.trials), window_s=0.0, **lost))
        store.save(data, self.path)
        self.assertEqual(data, store.load(self.path))

    def test_half_a_surrogate_pair_costs_nothing_else(self):
        """UTF-8 has no bytes for it, and a file with its escape would be refused when it is read."""
        data = samples.results({"host": 3.0})
        data.environment["host"] = "h\udc80\ud800"
        store.save(data, self.path)
        self.assertEqual("h??", store.load(self.path).environment["host"])

    def test_a_failed_write_leaves_the_old_file(self):
        store.save(samples.results({"host": 3.0}), self.path)
        before = open(self.path, encoding="utf-8").read()
        bad = samples.results({"host": 3.0})
        bad.trials[0].value = float("nan")
        self.assertRaises(ValueError, store.save, bad, self.path)
        self.assertEqual(before, open(self.path, encoding="utf-8").read())
        path = os.path.join(self.folder, "none", "x")
        self.assertRaises(whole_file.OutputError, store.write_atomically, path, "text")
        self.assertEqual(["results.json"], os.listdir(self.folder))

    def test_names_of_no_file(self):
        self.assertRaises(whole_file.OutputError, store.write_atomically, "", "text")
        long = os.path.join(self.folder, "x" * 300)
        failure = self.assertRaises(OSError, store.write_atomically, long, "text")
        self.assertEqual((long, None), (failure.filename, failure.filename2))
        self.assertEqual([], os.listdir(self.folder))

    def test_only_files_are_replaced(self):
        """A device, pipe, socket, link or folder stays what it is."""
        places = {name: os.path.join(self.folder, name) for name in ("device", "pipe", "socket", "link", "folder")}
        os.mknod(places["device"], 0o600 | stat.S_IFCHR, os.makedev(0, 0))  # the one device that needs no root
        os.mkfifo(places["pipe"])
        os.mknod(places["socket"], 0o600 | stat.S_IFSOCK)
        os.symlink("nowhere", places["link"])
        os.mkdir(places["folder"])
        before = {name: os.lstat(path) for name, path in places.items()}
        for path in places.values():
            error = self.assertRaises(whole_file.OutputError, store.write_atomically, path, "text")
            self.assertIn(path, str(error))
        self.assertEqual(before, {name: os.lstat(path) for name, path in places.items()})
        self.assertEqual(sorted(places), sorted(os.listdir(self.folder)))

    def test_hostile(self):
        for text, told in (
            ("", "no JSON at line 1"),
            ("{", "no JSON at line 1"),
            ("[]", "the document"),
            ("NaN", "NaN is no number"),
            ('{"schema": 1, "environment": {}, "trials": [' + "[" * 100_000, "no acceptable JSON"),
            ('{"schema": 2, "environment": {}, "trials": []}', "schema"),
            ('{"schema": 1, "environment": {"seed": 1e999}, "trials": []}', "too large"),
            ('{"schema": 1, "environment": {"x": "\\ud800"}, "trials": []}', "no acceptable JSON"),
            ('{"schema": 1, "environment": {"seed": ' + "9" * 5000 + '}, "trials": []}', "no acceptable JSON"),
            ('{"schema": 1, "environment": {"memory_mib": ' + "9" * 400 + '}, "trials": []}', "too large"),
            ('{"schema": 1, "environment": {"load_at_start": ' + "9" * 200 + '}, "trials": []}', "load_at_start"),
            ('{"schema": 1, "environment": {"seed": -1}, "trials": []}', "environment.seed"),
            ("\0" * 1000, "no JSON at line 1"),
            ("trial\n" * 1_000_000, "no JSON at line 1"),
            ('{"schema": 1, "environment": {}, "trials": []}\n' * 2, "no JSON at line 2"),
            ('{"environment": {}, "trials": []}', "'schema' is a required property"),
        ):
            error = self.assertRaises(schema.InputError, self.load, text)
            self.assertIn(told, str(error), text[:80])
            self.assertTrue(len(str(error)) < 500)

    def test_a_compressed_file_is_to_be_unpacked(self):
        text = b'{"schema": 1}' * 50
        for module, name in ((lzma, "xz"), (gzip, "gzip"), (bz2, "bzip2")):
            with open(self.path, "wb") as file:
                file.write(module.compress(text))
            error = self.assertRaises(schema.InputError, store.load, self.path)
            self.assertEqual(f"{self.path}: it is compressed ({name}); unpack it first", str(error))

    def test_a_key_stands_once(self):
        """Of two values the last would win, and a person who reads the file sees the first."""
        text = json.dumps(self.document())
        for doubled in (
            text.replace('"value": ', '"value": 1.0, "value": ', 1),
            text.replace('"value": ', '"value" : 1.0, "value"\t:', 1),
            text.replace('"value": ', '"value": 1.0, "value": ', 1).replace('"seed"', '"a\\u003ab": 1, "seed"'),
            text.replace('"unit": "', '"unit": ":", "unit": "', 1),
        ):
            error = self.assertRaises(schema.InputError, self.load, doubled)
            self.assertRegex(str(error), "no acceptable JSON: the key '(value|unit)' stands twice in one object")
        for told in ("a:b", 'a": "b', "a\\u003ab", "\\u0022: ", "[" * 100):
            self.load(text.replace('"seed"', f'{json.dumps(told)}: ":", "seed"'))

    def test_without_the_fast_parser(self):
        self.useFixture(fixtures.MonkeyPatch("sys.modules", {**sys.modules, "orjson": None}))
        self.test_a_key_stands_once()
        self.test_hostile()

    def test_a_pipe(self):
        """One with a writer is read, however long that takes to begin; one without ends."""
        self.useFixture(fixtures.MonkeyPatch("nova_perf_tuning.budget.schema._PATIENCE_MS", 50))
        pipe = os.path.join(self.folder, "pipe")
        os.mkfifo(pipe)
        error = self.assertRaises(schema.InputError, store.load, pipe)
        self.assertEqual(f"{pipe}: it is a pipe that nobody writes to; give a file", str(error))
        store.save(samples.results({"host": 3.0}), self.path)
        for pause in ("0", "0.5"):
            command = ["sh", "-c", f"sleep {pause}; cat {self.path}"]
            with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
                found = store.load(f"/dev/fd/{process.stdout.fileno()}")
            self.assertEqual(store.load(self.path), found)

    def test_wrong_trials_are_named(self):
        for key, value in (
            ("value", -1),
            ("value", None),
            ("value", 1e300),
            ("value", 5e-324),
            ("work", 5e-324),
            ("window_s", 5e-324),
            ("better", "bigger"),
            ("group", -1),
            ("arm", ""),
            ("arm", "x" * 300),
            ("host_cpu_s", {"total": "1"}),
            ("host_cpu_s", {"total": None}),
            ("window_s", None),
            ("error", "both"),
            ("surprise", 1),
        ):
            document = self.document()
            document["trials"][1][key] = value
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn("trials[1]", str(error), (key, value))

    def test_one_metric_has_one_better_way(self):
        document = self.document()
        document["trials"][1]["better"] = "lower"
        error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
        self.assertIn("contradicts", str(error))

    def test_a_benchmark_knows_which_way_is_better(self):
        document = self.document()
        for one in document["trials"]:
            one["better"] = "lower"
        for kinds in (
            {},
            {"iperf3": {"kind": "of somebody else"}},
            {"iperf3": {}},
            {"iperf3": {"kind": "iperf3"}},
        ):
            document["environment"]["benchmarks"] = kinds
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn("trials[0].better: is 'lower', but throughput of iperf3 is better higher", str(error))
        for one in document["trials"]:
            one["metric"] = "retransmits"
        self.load(json.dumps(document))
        for one in document["trials"]:
            one.update(metric="throughput", benchmark="own", primary=True)
        self.load(json.dumps(document))
        document["environment"]["benchmarks"] = {"own": {"kind": "iperf3"}}
        self.assertRaises(schema.InputError, self.load, json.dumps(document))

    def beside(self, document, **changes):
        """Return the trials of a document, before each the same run's figure with some changes."""
        return [new for one in document["trials"] for new in ({**one, **changes}, one)]

    def test_a_benchmark_knows_what_it_is_judged_by(self):
        """A figure that nobody measured, first and said to be the primary one, is shown and not judged."""
        for kinds in ({}, {"iperf3": {"kind": "iperf3"}}, {"iperf3": {"kind": "of somebody else"}}):
            document = self.document()
            document["trials"] = self.beside(document, metric="goodness", value=7.5)
            document["environment"]["benchmarks"] = kinds
            found = self.load(json.dumps(document))
            self.assertEqual({"throughput"}, {one.metric for one in found.trials if one.primary})

    def test_of_an_unknown_benchmark_one_figure_is_judged(self):
        document = self.document()
        document["trials"] = self.beside(document, metric="goodness", value=7.5)
        for one in document["trials"]:
            one["benchmark"] = "own"
        error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
        self.assertIn("trials[1].primary: true for 'throughput', but for 'goodness' in trials[0]", str(error))
        for one in document["trials"]:
            one["primary"] = one["metric"] == "goodness"
        self.load(json.dumps(document))

    def test_another_version_may_judge_by_another_figure(self):
        document = self.document()
        for one in document["trials"]:
            one["metric"] = "goodput"
        found = self.load(json.dumps(document))
        self.assertTrue(all(one.primary for one in found.trials))

    def test_every_run_has_a_number_of_its_own(self):
        for numbers in (itertools.repeat(0), itertools.repeat(4), itertools.cycle((0, 1, 2))):
            document = self.document()
            for one, number in zip(document["trials"], numbers, strict=False):
                one["order"] = number
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertRegex(
                str(error), r"trials\[[13]\](: is run 0 of|.order: is [04], which trials\[0\] of another run)"
            )
        document = self.document()
        document["trials"] = self.beside(
            document, metric="latency", unit="s", better="lower", primary=False, value=2.5
        )
        self.load(json.dumps(document))  # the figures of one run share its number

    def test_what_was_measured_took_time(self):
        document = self.document()
        document["trials"][1]["window_s"] = 0
        error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
        self.assertIn("trials[1].window_s: 0 is less than or equal to the minimum of 0", str(error))
        document["trials"][1].update(value=None, error="the guest was lost")
        self.load(json.dumps(document))

    def test_a_renumbered_copy_is_no_run(self):
        """A boot once more with another number, as rounded windows of a cloud or as a host's own have it."""
        for window in (5.0, None):
            document = self.document()
            rows = document["trials"]
            for index, one in enumerate(rows):
                one["window_s"] = window or 5.01234567 + index / 7e4
            again = [{**one, "group": one["group"] + 7, "order": one["order"] + 100} for one in rows]
            document["trials"] = rows + again
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(
                f"trials[{len(rows) + (window is not None)}]: has figure, window and CPU times of", str(error)
            )

    def test_like_runs_are_no_copies(self):
        """Whole numbers over whole windows repeat themselves, and so may one figure of many."""
        document = self.document()
        for one in document["trials"]:
            one.update(value=40.0, window_s=4.012)
        self.load(json.dumps(document))
        document = self.document()
        document["trials"][5]["value"] = document["trials"][1]["value"]
        self.load(json.dumps(document))
        document = self.document()
        for index, one in enumerate(document["trials"]):
            one.update(value=40.0, window_s=4.0123456789, guest_cpu_s=1 + index / 100)
        self.load(json.dumps(document))

    def test_a_benchmark_knows_its_units(self):
        for changes, told in (
            ({"unit": "Gbit/s"}, "trials[0].unit: is 'Gbit/s', but throughput of iperf3 is in Mbit/s"),
            ({"work_unit": "Mbit"}, "trials[0].work_unit: is 'Mbit', but iperf3 counts in Gbit"),
        ):
            document = self.document()
            document["environment"]["benchmarks"] = {"iperf3": {"kind": "iperf3"}}
            self.load(json.dumps(document))
            for one in document["trials"]:
                one.update(changes)
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(told, str(error))
            for one in document["trials"]:
                one["benchmark"] = "net"
            document["environment"]["benchmarks"] = {"net": {"kind": "of somebody else"}}
            self.load(json.dumps(document))

    def test_as_many_boots_as_were_run(self):
        document = self.document()
        environment = document["environment"]
        for told in (3, 3.0, None, "3"):
            environment["groups_run"] = told
            self.load(json.dumps(document))
        for told in (2, 2.0, 4):
            environment["groups_run"] = told
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(f"environment.groups_run: is {told:g}, but there are trials of 3 groups", str(error))
        environment["fleet"] = {"run": "r", "verdict": None, "hosts": [], "pairs": pairs(3)}
        self.load(json.dumps(document))  # there the server's own guest is a boot too

    def test_a_fleet_has_all_its_pairs(self):
        document = self.document()
        for groups, found, told in (
            (3, pairs(3), ""),
            (3, [*pairs(3), {**pairs(4)[3], "state": "dropped"}], ""),
            (3, pairs(2), "environment.groups: is 3, but fleet.pairs has 2"),
            (2, pairs(3), "environment.groups: is 2, but fleet.pairs has 3"),
            (None, pairs(1), "trials[12].group: is 2, which no pair"),
            (None, [*pairs(3), *pairs(1)], "has a number twice"),
            (None, [*pairs(3), pairs(5)[4]], "has number 4, but 4 pairs are numbered from 0 on"),
            (2.0, pairs(3), "environment.groups: is 2, but fleet.pairs has 3"),
        ):
            document["environment"] |= {
                "groups": groups,
                "fleet": {"run": "r", "verdict": None, "hosts": [], "pairs": found},
            }
            if not told:
                self.load(json.dumps(document))
                continue
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(told, str(error))

    def test_a_host_of_a_fleet_stands_once(self):
        document = self.document()
        host = {"host": "c0", "verdict": None, "reasons": [], "peers": 1, "measured": 1}
        fleet = {"run": "r", "verdict": None, "hosts": [host, host], "pairs": pairs(3)}
        document["environment"]["fleet"] = fleet
        error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
        self.assertIn("environment.fleet.hosts: has 'c0' twice; leave one of them out", str(error))

    def test_nothing_waits_for_less_than_no_time(self):
        document = self.document()
        document["trials"][1]["wait_s"] = -0.01  # counters lag
        self.load(json.dumps(document))
        document["trials"][1]["wait_s"] = -3000
        error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
        self.assertIn("trials[1].wait_s: is -3000", str(error))

    def test_figures_of_one_metric_have_one_unit(self):
        """A thousand times as much in another unit would be a gain, and PASS."""
        for key, value in (("unit", "kbit/s"), ("work_unit", "Mbit")):
            document = self.document()
            document["trials"][1][key] = value
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(f"trials[1].{key}: '{value}', where an earlier trial", str(error))
        document["trials"][1].update(value=None, error="lost", work=None, work_unit="")
        self.assertEqual(len(document["trials"]), len(self.load(json.dumps(document)).trials))

    def test_a_run_is_counted_once(self):
        """Copies, of a trial or of a boot, would pass for replicates."""
        document = self.document()
        rows = document["trials"]
        for copies in ([rows[3]], [{**one, "group": one["group"] + 7} for one in rows]):
            error = self.assertRaises(
                schema.InputError, self.load, json.dumps({**document, "trials": rows + copies})
            )
            self.assertIn(f"trials[{len(rows)}]: is run {copies[0]['order']} of '{copies[0]['arm']}'", str(error))
        beside = {**rows[3], "metric": "latency", "primary": False}
        twice = [beside, {**beside, "value": 7.0}]  # a figure that a benchmark prints twice in one run
        self.assertEqual(7.0, self.load(json.dumps({**document, "trials": [*rows, *twice]})).trials[-1].value)

    def refused(self, document, rows):
        error = self.assertRaises(schema.InputError, self.load, json.dumps({**document, "trials": rows}))
        self.assertIn("give every validation a results file of its own", str(error))
        return str(error)

    def test_two_validations_in_one_file_are_no_replicates(self):
        """Their trials would be averaged block by block, and a loss with them."""
        document = self.document()
        rows = document["trials"]
        second = [{**one, "value": one["value"] * 0.5, "window_s": 5.5} for one in rows]
        self.assertIn("trials[18].window_s: is not that of trials[0]", self.refused(document, rows + second))
        for key, value in (
            ("host_cpu_s", {"total": 1.25}),
            ("guest_cpu_s", 3.25),
            ("wait_s", 0.25),
            ("conditions", {"steal_share": 0.25}),
        ):
            changed = [rows[0], {**rows[0], "metric": "latency", "primary": False, key: value}, *rows[1:]]
            self.assertIn(f"trials[1].{key}: is not that of trials[0]", self.refused(document, changed))
        for one in second:
            one.update(window_s=5.0, order=one["order"] + 100)
        told = self.refused(document, rows + second)
        self.assertIn("trials[18]: runs 'iperf3' in group 0, block 0 of 'host' once more, after trials[0]", told)
        for one in rows + second:
            del one["order"]
        self.assertIn("trials[18]: runs 'iperf3'", self.refused(document, rows + second))

    def test_an_arm_is_no_copy_of_another(self):
        document = self.document()
        hosts = [{**one, "host_cpu_s": {"total": 2.0}} for one in document["trials"] if one["arm"] == "host"]
        document["trials"] = [new for one in hosts for new in (one, {**one, "arm": "tuned"})]
        for numbers, told in (
            (None, "trials[1].order: is 0, which trials[0] of another run has"),
            (itertools.count(), "trials[3]: has figure, window and CPU times of trials[2], another run"),
        ):
            for one in document["trials"] if numbers else ():
                one["order"] = next(numbers)
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn(told, str(error))

    def test_runs_need_no_number(self):
        document = self.document()
        for one in document["trials"]:
            del one["order"]
        self.assertEqual({0}, {one.order for one in self.load(json.dumps(document)).trials})

    def test_looks_share_one_error_probability(self):
        document = self.document()
        for share, accepted in ((0.25, True), (0.750000001, True), (1, False)):
            document["environment"]["looks"] = [{"groups": 3, "share": 0.25}, {"groups": 4, "share": share}]
            if accepted:
                self.load(json.dumps(document))
                continue
            error = self.assertRaises(schema.InputError, self.load, json.dumps(document))
            self.assertIn("looks: shares add up to 1.25", str(error))

    def test_not_text_and_too_large(self):
        with open(self.path, "wb") as file:
            file.write(b"\xff\xfe{}")
        self.assertIn("no UTF-8", str(self.assertRaises(schema.InputError, store.load, self.path)))
        os.truncate(self.path, store.MAX_BYTES + 1)
        self.assertIn("larger than", str(self.assertRaises(schema.InputError, store.load, self.path)))
        self.assertRaises(schema.InputError, store.load, self.folder)

    @hypothesis.given(strategies.data())
    @hypothesis.settings(deadline=None, max_examples=60)
    def test_any_damage_is_refused_or_harmless(self, data):
        document = self.document()
        place = document if data.draw(strategies.booleans()) else document["trials"][0]
        key = data.draw(strategies.sampled_from(sorted(place)))
        value = data.draw(
            strategies.none()
            | strategies.booleans()
            | strategies.integers()
            | strategies.text()
            | strategies.floats()
        )
        place[key] = value
        try:
            found = self.load(json.dumps(document))
        except schema.InputError as error:
            self.assertNotIn("Traceback", str(error))
            return
        store.save(found, self.path)
        self.assertEqual(found, store.load(self.path))
