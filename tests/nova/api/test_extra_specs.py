# SPDX-License-Identifier: Apache-2.0
"""Nova's API takes or refuses ``perf:`` extra specs; real API, real entry point."""

import re
import subprocess
import sys

from nova.api.validation.extra_specs import validators
from nova.tests.functional.api import client

from nova_perf_tuning.nova import native_specs
from nova_perf_tuning.specs import native, vocabulary
from tests.nova import base
from tests.support import testcase

#: A value of each kind that must be refused, beside those that are worked out of its bounds.
WRONG = {
    vocabulary.ValueKind.QUEUES: ["0", "x", "-1", "+4", " 4", "1_0", "4.0", "Auto", "", "\u0664"],
    vocabulary.ValueKind.INTEGER: ["-1", "two", "+1", "1_0", " 1", ""],
    vocabulary.ValueKind.BOOLEAN: ["maybe", "2", ""],
    vocabulary.ValueKind.CHOICE: ["other", "NONE", "300", "0256", ""],
    vocabulary.ValueKind.NAME: ["-x", "../etc", "a b", "x" * 64, ""],
}


def right_and_wrong(spec):
    """Return (values that are allowed, values that are not) of one spec."""
    wrong = list(WRONG[spec.kind])
    if spec.kind is vocabulary.ValueKind.BOOLEAN:
        return ["true", "False", "on", "0"], wrong
    if spec.kind is vocabulary.ValueKind.NAME:
        return ["network-latency", "x" * 63], wrong
    if spec.kind is vocabulary.ValueKind.CHOICE:
        return list(spec.choices), wrong
    return [*spec.choices[:2], spec.choices[-1]], [*wrong, str(int(spec.choices[-1]) + 1)]


class NativeSpecsTest(testcase.TestCase):
    def test_the_list_is_a_list_of_what_nova_knows(self):
        """Later releases add keys, so of this release's none may be missing in the list."""
        known = {
            re.sub(r"\{.*\}", "N", key) for key in validators.VALIDATORS if key.startswith("hw:")
        }
        self.assertEqual(set(), known - native.KNOWN.keys())

    def test_the_list_judges_values_as_nova_does(self):
        check = native_specs.validator()
        for key in native.KNOWN:
            if check(name := key.replace(".N", ".0"), "1") and "does not appear" in check(
                name, "1"
            ):
                continue  # of a later release
            for value in (
                "0",
                "1",
                "-1",
                "x",
                "true",
                "Off",
                "0-3,^1",
                "dedicated",
                "share",
                "large",
                "2MB",
                "none",
            ):
                listed = any(native.findings({name: value}))
                self.assertTrue(bool(check(name, value)) >= listed, (name, value))


class ExtraSpecsTest(base.PerfTestCase):
    def setUp(self):
        super().setUp()
        self.flavor = self._create_flavor()

    def test_in_one_cloud(self):
        # The last one changes the microversion.
        self.steps(
            self.every_key_takes_what_is_allowed_and_nothing_else,
            self.unknown_keys_are_refused,
            self.other_namespaces_are_as_without_us,
            self.older_microversions_take_anything,
        )

    def set_all(self, specs):
        """Set extra specs through the API and return what the API has then."""
        self.admin_api.post_extra_spec(self.flavor, {"extra_specs": specs})
        shown = self.admin_api.api_get(f"flavors/{self.flavor}/os-extra_specs").body["extra_specs"]
        return {key: shown.get(key) for key in specs}

    def set(self, key, value):
        """Set one extra spec as :meth:`set_all`."""
        return self.set_all({key: value})[key]

    def refused(self, key, value):
        """Return the API's reason for refusing a spec; fails when it takes it."""
        error = self.assertRaises(client.OpenStackApiException, self.set, key, value)
        self.assertEqual(400, error.response.status_code, f"{key}={value}")
        return error.response.json()["badRequest"]["message"]

    def every_key_takes_what_is_allowed_and_nothing_else(self):
        rights = {}
        for spec in vocabulary.VOCABULARY:
            right, wrong = right_and_wrong(spec)
            for key, _image, _feature in spec.keys():
                rights[key] = right
            # All members of a family share one validator.
            for value in wrong:
                reason = self.refused(key, value)
                self.assertIn(key, reason)
                self.assertIn(spec.allowed, reason)
        # Nova judges each key of a request by itself, so what is allowed of all keys goes together.
        for number in range(max(map(len, rights.values()))):
            specs = {key: right[number % len(right)] for key, right in rights.items()}
            self.assertEqual(specs, self.set_all(specs))

    def unknown_keys_are_refused(self):
        for key in (
            "perf:typo",
            "perf:vif_queue",
            "perf:vif_guest_offload.gso",  # libvirt has it for the host's side only
            "perf:vif_guest_offload.mrg_rxbuf",
            "perf:vif_host_offload",
            "perf:vif_host_offload.",
            "perf:vif_host_offload.csum.x",
            # Nova takes the dot of a name for any character; the first is how an image's property is written.
            "perf:vif_host_offload_csum",
            "perf:vif_host_offload-csum",
            "perf:vif_guest_offload:csum",
        ):
            with self.subTest(key):
                self.assertIn(
                    "does not appear to be a valid extra spec", self.refused(key, "true"), key
                )

    def other_namespaces_are_as_without_us(self):
        self.assertEqual("x", self.set("mine:typo", "x"))
        self.assertIn("does not appear to be a valid extra spec", self.refused("hw:typo", "x"))

    def older_microversions_take_anything(self):
        """Nova's rule: hence the driver has to refuse at build."""
        self.admin_api.microversion = "2.85"
        self.assertEqual("0", self.set("perf:vif_queues", "0"))
        self.assertEqual("x", self.set("perf:typo", "x"))


class RegistrationTest(testcase.TestCase):
    def test_every_key_has_one_described_validator(self):
        ours = {
            name: entry
            for name, entry in validators.VALIDATORS.items()
            if name.startswith("perf:")
        }
        for entry in ours.values():
            self.assertTrue(entry.description.endswith("."), entry)
            self.assertIn("Allowed: ", entry.value["description"])
        for key in vocabulary.BY_KEY:
            matching = [name for name, entry in ours.items() if self.matches(entry, key)]
            self.assertEqual(1, len(matching), (key, matching))
        self.assertEqual(len(vocabulary.VOCABULARY), len(ours))

    @staticmethod
    def matches(entry, key):
        return re.fullmatch(entry.name_regex, key)

    def test_api_process_loads_nothing_of_the_host(self):
        """In a process of its own: what does our module import that Nova had not?"""
        program = (
            "import sys\n"
            "from nova.api.validation.extra_specs import base\n"
            "before = set(sys.modules)\n"
            "from nova_perf_tuning.nova import extra_specs\n"
            "assert len(extra_specs.register()) > 5\n"
            "print(*sorted(set(sys.modules) - before))\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        loaded = set(done.stdout.split())
        self.assertIn("nova_perf_tuning.nova.extra_specs", loaded)
        ours = (
            "printing",
            "nova",
            "nova.extra_specs",
            "specs",
            "specs.request",
            "specs.vocabulary",
        )
        allowed = {"nova_perf_tuning", *(f"nova_perf_tuning.{name}" for name in ours)}
        self.assertEqual(
            set(),
            {
                name
                for name in loaded - allowed
                if name.split(".")[0] not in sys.stdlib_module_names
            },
        )
