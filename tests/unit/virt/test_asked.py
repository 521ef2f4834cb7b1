"""What an instance asks for, of stand-ins for Nova's objects."""

import os

import fixtures
import testtools

from nova_perf_tuning.specs import crosscheck
from nova_perf_tuning.virt import asked


class _Flavor:
    vcpus = 2

    def __init__(self, extra_specs):
        self.extra_specs = extra_specs

    def __contains__(self, name):
        return hasattr(self, name)


class _Instance:
    system_metadata = {"image_os_type": "linux"}

    def __init__(self, extra_specs):
        self.flavor = _Flavor(extra_specs)


class ProfileTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path
        with open(os.path.join(self.folder, "own.yaml"), "w", encoding="utf-8") as file:
            file.write(
                "name: own\ndescription: x\nspecs:\n"
                "  'hw:cpu_policy': {value: dedicated, reason: y}\n"
                "  'perf:irq_placement': {value: vcpu, reason: y}\n"
            )

    def request(self, **extra_specs):
        specs = {key.replace("__", ":"): text for key, text in extra_specs.items()}
        return asked.request(_Instance(specs), lambda: self.folder)

    def test_novas_specs_of_a_profile_are_not_in_force(self):
        """Nova reads the flavor alone: a guest of it has no CPUs of its own, whatever the profile says."""
        self.assertRaises(crosscheck.ContradictionError, self.request, perf__profile="own")

    def test_novas_specs_in_the_flavor_are(self):
        request, warnings = self.request(perf__profile="own", hw__cpu_policy="dedicated")
        self.assertEqual(("vcpu", ()), (request.irq_placement, warnings))

    def test_those_that_the_flavor_lacks_are_named(self):
        _, warnings = self.request(perf__profile="own", hw__cpu_policy="mixed")
        self.assertEqual((), warnings)
        _, warnings = self.request(perf__profile="own", perf__irq_placement="none")
        self.assertEqual(1, len(warnings))
        self.assertIn("the flavor lacks hw:cpu_policy=dedicated", warnings[0])
