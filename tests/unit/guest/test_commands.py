# SPDX-License-Identifier: Apache-2.0
"""nova-perf explain and xml, as a user meets them: right output, and one line for every mistake."""

import json

from nova_perf_tuning.guest import parsing, transform
from tests.support import corpus, directories, program

#: Options of ``explain`` -> words of the error.
WRONG_OPTIONS = [
    (["--vcpus", "0"], "--vcpus: '0'"),
    (["--vcpus", "9" * 5000], "--vcpus: '999"),
    (["--vcpus", "4", "--profile-dir", "/nowhere"], "profile directory /nowhere"),
    *(
        (["--vcpus", "4", "--spec", text], words)
        for text, words in (
            ("", "KEY=VALUE"),
            ("perf:iothreads", "KEY=VALUE"),
            ("iothreads=1", "did you mean perf:iothreads?"),
            ("perf:iothreads=1\n2", "perf:iothreads=1?2"),
            ("perf:vif_queues=\x1b[2J", "perf:vif_queues=?[2J"),
            ("perf:vif_queues=8", "at most 4"),
            ("perf:profile=nothing", "there are ai, balanced"),
        )
    ),
]


class CommandTest(directories.DirectoryCase):
    def check_error(self, result, words):
        code, out, err = result
        self.assertEqual((3, 1), (code, len(err.splitlines())), err)
        if out:  # of -f json
            self.assertIn(json.loads(out)["error"], err)
        self.assertIn(words, err)
        self.assertTrue(err.rstrip("\n").isprintable() and len(err) < 500, err)
        self.assertNotIn("internal error", err)

    def test_a_diff_of_many_lines_is_right_and_takes_no_time(self):
        """The first and the last change enclose the metadata, whose lines are all alike."""
        disk = "<disk type='file'><source file='/a'/><target dev='vda' bus='virtio'/></disk>"
        for lines, hunks in ((100, 2), (20000, 1)):
            with self.subTest(lines):
                text = "\n".join(str(number % 101) for number in range(lines))
                domain = (
                    "<domain type='kvm'><name>x</name><vcpu>2</vcpu>"
                    f"<metadata><t:a xmlns:t='urn:x'>\n{text}\n</t:a></metadata><devices>{disk}</devices></domain>"
                )
                before = transform.text(parsing.parse_xml(domain))
                command = ("xml", "--spec", "perf:iothreads=1", self.xml_file(before))
                after = transform.text(parsing.parse_xml(program.nova_perf(*command).stdout))
                diff = program.nova_perf(*command, "--diff").stdout
                self.assertEqual(hunks, diff.count("\n@@ "))
                self.assertEqual(after, self.patched(before, diff))

    def patched(self, text, diff):
        """Return the text with a unified diff applied to it."""
        old = text.splitlines(True)
        new = []
        done = 0
        for line in diff.splitlines(True)[2:]:
            if line.startswith("@@"):
                first, count = line.split()[1].removeprefix("-").split(",")
                new += old[done : int(first) - 1]
                done = int(first) - 1
                self.assertLessEqual(done + int(count), len(old))
            elif line.startswith("+"):
                new.append(line[1:])
            else:
                self.assertEqual(old[done], line[1:])
                done += 1
                if line.startswith(" "):
                    new.append(line[1:])
        return "".join(new + old[done:])

    def xml_file(self, content):
        return self.write_file("domain.xml", content)


class ExplainTest(CommandTest):
    def test_explain_json_has_origin_and_xml_of_each_spec(self):
        code, out, _ = program.run(
            "explain", "--vcpus", "4", "--spec", "perf:profile=network-throughput", "--spec", "perf:vif_queues=2",
            "--image-property", "hw_perf_iothreads=2", "-f", "json",
        )  # fmt: skip
        document = json.loads(out)
        rows = {row["spec"]: row for row in document["specs"]}
        self.assertEqual(
            (0, {"hw:vif_multiqueue_enabled": "true"}), (code, document["flavor_lacks"])
        )
        self.assertEqual(['<driver name="vhost" queues="2"/>'], rows["perf:vif_queues"]["xml"])
        self.assertEqual("flavor", rows["perf:vif_queues"]["origin"])
        self.assertEqual("image", rows["perf:iothreads"]["origin"])
        self.assertIn("<iothreads>2</iothreads>", rows["perf:iothreads"]["xml"])
        self.assertEqual("profile network-throughput", rows["perf:vhost_placement"]["origin"])
        self.assertIn("affinity of each vhost worker", rows["perf:vhost_placement"]["host"])
        self.assertEqual(
            {"hw:vif_multiqueue_enabled": "true"}, rows["hw:vif_multiqueue_enabled"]["native"]
        )

    def test_explain_shows_specs_that_it_does_not_know(self):
        """They would vanish otherwise, and with them a misspelt name."""
        options = ["--spec", "pci_passthrough:alias=ceph:1", "--spec", "pref:iothreads=1"]
        code, out, _ = program.run("explain", "--vcpus", "2", *options)
        self.assertEqual(0, code)
        for shown in (
            "pci_passthrough:alias=ceph:1  (from flavor)",
            "pref:iothreads=1  (from flavor)",
        ):
            self.assertIn(f"{shown}\n    left alone: neither perf: nor hw:", out)
        code, out, _ = program.run("explain", "--vcpus", "2", *options, "-f", "json")
        rows = {row["spec"]: row["native"] for row in json.loads(out)["specs"]}
        self.assertEqual({"pci_passthrough:alias": {}, "pref:iothreads": {}}, rows)

    def test_explain_without_specs_says_that_nothing_changes(self):
        code, out, _ = program.run("explain", "--vcpus", "2")
        self.assertEqual(
            (0, "There is no request: the guest stays as Nova makes it.\n"), (code, out)
        )

    def test_what_is_wrong_in_an_image_is_a_warning(self):
        names = ("x=1", "iothreads=16", "vhost_placement=numa", "disk_queues=8")
        properties = [f"hw_perf_{name}" for name in names]
        options = [part for text in properties for part in ("--image-property", text)]
        code, out, _ = program.run("explain", "--vcpus", "4", *options, "-f", "json")
        document = json.loads(out)
        self.assertEqual((0, []), (code, document["specs"]))
        codes = [warning["code"] for warning in document["warnings"]]
        self.assertEqual(
            ["unknown-spec", "value-not-allowed", "unknown-spec", "disk-queues-above-vcpus"], codes
        )

    def test_novas_own_specs_are_shown_and_judged(self):
        options = (
            "explain",
            "--vcpus",
            "8",
            "--spec",
            "hw:numa_nodes=1",
            "--spec",
            "hw:later=1",
            "-f",
            "json",
        )
        code, out, _ = program.run(*options)
        document = json.loads(out)
        rows = [(row["spec"], row["origin"]) for row in document["specs"]]
        self.assertEqual((0, [("hw:numa_nodes", "flavor"), ("hw:later", "flavor")]), (code, rows))
        codes = [warning["code"] for warning in document["warnings"]]
        self.assertEqual(["native-unknown", "native-combination-unjudged"], codes)
        document = json.loads(
            program.run(
                "explain", "--vcpus", "2", "--spec", "hw:vif_multiqueue_enabled=true", "-f", "json"
            )[1]
        )
        self.assertEqual([], document["warnings"])
        specs = ("hw:pmu=2", "perf:vif_queues=0", "perf:disk_queues=9")
        refused = program.run(*options, *(part for spec in specs for part in ("--spec", spec)))
        for key in ("hw:later=1", *specs):
            self.check_error(refused, key)

    def test_wrong_options_are_one_line(self):
        for options, words in WRONG_OPTIONS:
            self.check_error(program.run("explain", *options), words)


class XmlTest(CommandTest):
    def test_request_of_the_domain(self):
        path = self.xml_file(corpus.text("virtio-scsi.xml"))
        code, out, err = program.run("xml", path)
        self.assertEqual(0, code)
        self.assertEqual("storage", parsing.parse_domain(out).request.profile)
        self.assertEqual("", err)
        self.assertEqual((0, out, ""), program.run("xml", self.xml_file(out)))

    def test_xml_json_has_codes_of_notes(self):
        path = self.xml_file(corpus.text("config-drive.xml"))
        code, out, err = program.run("xml", path, "--spec", "perf:iothreads=1", "-f", "json")
        document = json.loads(out)
        self.assertEqual(
            (0, "", ["no_disk"]), (code, err, [note["code"] for note in document["notes"]])
        )
        self.assertIn('iothread="1"', document["xml"])

    def test_devices_that_this_machine_does_not_have(self):
        path = self.xml_file(corpus.text("hostdev.xml"))
        code, out, _err = program.run(
            "xml", path, "--spec", "perf:pci_topology=numa", "-f", "json"
        )
        document = json.loads(out)
        codes = [note["code"] for note in document["notes"]]
        self.assertEqual((0, ["node_unknown"] * 2), (code, codes))
        self.assertIn("pcie-expander-bus", document["xml"])

    def test_many_queues_are_a_warning(self):
        interface = "<interface type='bridge'><model type='virtio'/></interface>"
        xml = corpus.SMALL % f"<vcpu>8</vcpu><devices>{interface * 8}</devices>"
        options = ("xml", self.xml_file(xml), "-f", "json", "--spec")
        for queues, expected in (("auto", ["many_queues"]), ("2", [])):
            _code, out, _err = program.run(*options, f"perf:vif_queues={queues}")
            self.assertEqual(expected, [note["code"] for note in json.loads(out)["notes"]])

    def test_xml_without_specs_is_unchanged(self):
        text = corpus.text("rescue.xml")
        code, out, err = program.run("xml", self.xml_file(text))
        self.assertEqual((0, text), (code, out))
        self.assertIn("the XML is unchanged", err)

    def test_contradictions_are_refused_as_explain_refuses_them(self):
        path = self.xml_file(corpus.text("hostdev.xml").replace("dedicated", "shared"))
        wrong = "perf:irq_placement=vcpu needs vCPUs with CPUs of their own"
        self.check_error(program.run("xml", path, "--spec", "perf:irq_placement=vcpu"), wrong)

    def test_hostile_domains(self):
        for content, words in (
            (corpus.LAUGHS, "DOCTYPE"),
            (corpus.SMALL % "<vcpu>-1</vcpu>", "<vcpu>"),
        ):
            self.check_error(
                program.run("xml", self.xml_file(content), "--spec", "perf:iothreads=1"), words
            )
