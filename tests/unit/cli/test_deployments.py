# SPDX-License-Identifier: Apache-2.0
"""Where deployments keep nova-compute's files and libvirt's: plan, audit and agent take the same, and show it."""

import json
import pathlib
import shutil

from nova_perf_tuning.agent import reconcile, sources
from nova_perf_tuning.conf import opts
from nova_perf_tuning.host.input import novaconf
from nova_perf_tuning.host.input.facts import root as roots
from nova_perf_tuning.host.model.notes import NoteCode
from nova_perf_tuning.host.plan import background
from tests.support import program, sysroots, testcase

TEXT = "[compute]\ncpu_dedicated_set = 2\n"
SHARED = "[compute]\ncpu_shared_set = 6\n"


#: Deployment -> nova-compute's files in the order of reading; beside them lies what it does not read.
PLACES = {
    "packages": {"etc/nova/nova.conf": SHARED, "etc/nova/nova-compute.conf": TEXT},
    "OpenStack-Ansible": {
        "etc/nova/nova.conf": SHARED,
        "etc/nova/nova-compute.conf.d/perf.conf": TEXT,
    },
    "kolla-ansible": {"etc/kolla/nova-compute/nova.conf": TEXT + SHARED},
    "RHOSO": {
        "var/lib/openstack/nova/01-nova.conf": TEXT.replace("2", "4"),
        "var/lib/openstack/nova/25-cpu-pinning-nova.conf": TEXT + SHARED,
    },
    "RHOSO before": {"var/lib/openstack/config/nova/01-nova.conf": TEXT + SHARED},
}


def put(root, files):
    """Write files below ``root``."""
    for name, text in files.items():
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


class PlacesTest(testcase.TestCase):
    def host(self, deployment):
        """Return the root of a host and the paths of its files."""
        root = sysroots.make_host(self)
        put(root, {**PLACES[deployment], "var/lib/openstack/nova/ssh-config": "Host *\n"})
        if (
            deployment == "OpenStack-Ansible"
        ):  # /etc/nova is a link into the environment of nova-compute
            venv = pathlib.Path(root, "openstack/venvs/nova-33.0.2/etc")
            venv.mkdir(parents=True)
            pathlib.Path(root, "etc/nova").rename(venv / "nova")
            pathlib.Path(root, "etc/nova").symlink_to("../openstack/venvs/nova-33.0.2/etc/nova")
        return root, [f"/{path}" for path in PLACES[deployment]]

    def test_all_take_the_same(self):
        for deployment in PLACES:
            with self.subTest(deployment):
                root, paths = self.host(deployment)
                arguments = "--sysroot", root, "-f", "json"
                plan, audit = (
                    json.loads(program.run(name, *arguments)[1]) for name in ("plan", "audit")
                )
                for name in ("plan", "audit"):
                    shown = program.run(name, *arguments[:2])[1].splitlines()[-1]
                    self.assertEqual(f"nova.conf: {', '.join(paths)}", shown)
                self.assertEqual((paths, paths), (plan["nova_config"], audit["nova_config"]))
                self.assertEqual(
                    ("1-3,5,7", "6"), (plan["sets"]["dedicated"], plan["sets"]["shared"])
                )
                host = reconcile.TunedHost(root, opts.load([]).agent.nova_config)
                kept = host.plan(host.facts())
                # The agent leaves the kernel's own work where it is.
                own = {*background.WORK, "overlap", *kept.sets.keys() - plan["sets"].keys()}
                for name in plan["sets"].keys() - own:
                    self.assertEqual(plan["sets"][name], kept.sets[name])
                self.assertEqual(paths, list(kept.nova_config))

    def test_the_agent_hears_of_a_file_that_goes_comes_and_changes(self):
        for deployment in PLACES:
            with self.subTest(deployment):
                root, paths = self.host(deployment)
                poller = sources.Poller(root, reconcile.TunedHost(root).nova_files)
                poller.changed()
                self.assertFalse(poller.changed())
                path = pathlib.Path(root + paths[0])
                path.rename(path.with_suffix(".old"))
                self.assertTrue(poller.changed())
                path.write_text("")
                self.assertTrue(poller.changed())


class SeveralPlacesTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.root = sysroots.make_host(self)
        put(self.root, PLACES["kolla-ansible"])

    def test_what_packages_left_is_passed_over_and_noted(self):
        put(self.root, PLACES["packages"])
        host = reconcile.TunedHost(self.root)
        (note,) = [
            note
            for note in host.plan(host.facts()).warnings
            if note.code is NoteCode.NOVA_CONF_PASSED_OVER
        ]
        taken = "/etc/kolla/nova-compute/nova.conf"
        self.assertEqual({"places": ("etc/nova/nova.conf",), "taken": taken}, dict(note.params))

    def test_the_agent_reads_no_file_outside_of_a_recorded_host(self):
        path = pathlib.Path(self.root, "etc/kolla/nova-compute/nova.conf")
        outside = pathlib.Path(sysroots.make_host(self), "secret")
        outside.write_text("[compute]\ncpu_dedicated_set = 1-3\nsecret line\n")
        inside = path.with_name("inside")
        inside.write_text(SHARED)
        host = reconcile.TunedHost(self.root)
        facts = host.facts()
        path.unlink()
        path.symlink_to("inside")
        self.assertEqual("6", host.plan(facts).sets["shared"])
        for target in (outside, "nothing", "../nova-compute"):
            with self.subTest(target=target):
                path.unlink()
                path.symlink_to(target)
                error = self.assertRaises(novaconf.NovaConfigError, host.plan, facts)
                self.assertIn(
                    "nova.conf /etc/kolla/nova-compute/nova.conf: it cannot be read", str(error)
                )
                self.assertNotIn("secret", str(error))
        path.unlink()
        path.symlink_to("inside")
        inside.write_text("#" * (novaconf.MAX_BYTES + 1))
        self.assertRaises(novaconf.NovaConfigError, host.plan, facts)
        path.unlink()
        self.assertNotEqual("6", host.plan(facts).sets["shared"])

    def test_a_directory_that_is_hidden_is_no_missing_one(self):
        root = roots.Root(self.root)
        root.notes.add(NoteCode.NO_PERMISSION, "etc/kolla/nova-compute")
        self.assertEqual(["etc/kolla/nova-compute/nova.conf"], novaconf.find(root))
        error = self.assertRaises(novaconf.NovaConfigError, novaconf.find, root, strict=True)
        self.assertIn("etc/kolla/nova-compute", str(error))

    def test_guests_that_are_defined_in_a_volume(self):
        """libvirt's /run is the host's own; the pins of guests that do not run are in its volume."""
        shutil.rmtree(pathlib.Path(self.root, "run/libvirt/qemu"))
        defined = pathlib.Path(self.root, "etc/libvirt/qemu")
        for engine in ("docker", "containers/storage"):
            volume = pathlib.Path(self.root, "var/lib", engine, "volumes/nova_libvirt_qemu/_data")
            volume.parent.mkdir(parents=True)
            defined.rename(volume)
            host = reconcile.TunedHost(self.root)
            self.assertEqual("1-3,5,7", host.plan(host.facts()).sets["dedicated"], engine)
            defined = volume
