"""Installations as pip leaves them behind, made of a few files each; a fresh interpreter looks at them."""

import os
import pathlib
import subprocess
import sys

import fixtures
import testtools

TOP = pathlib.Path(__file__).parents[3]
NOVA = ("nova/__init__.py", "nova/virt/__init__.py", "nova/virt/libvirt/__init__.py")
SHIM = ("nova/virt/perf_tuning.py",)


class SelfCheckTest(testtools.TestCase):
    def problems(self, files, version="34.0.0"):
        folder = pathlib.Path(self.useFixture(fixtures.TempDir()).path)
        for name in files:
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        if version is not None:
            info = folder / f"nova-{version}.dist-info"
            info.mkdir()
            (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: nova\nVersion: {version}\n")
        package = folder / "nova_perf_tuning"
        package.symlink_to(TOP / "nova_perf_tuning")
        code = "from nova_perf_tuning.virt import selfcheck; print('\\n'.join(selfcheck.problems()))"
        run = subprocess.run(
            [sys.executable, "-S", "-B", "-c", code],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": str(folder)},
            capture_output=True,
            text=True,
            check=True,
        )
        return [line for line in run.stdout.splitlines() if line]

    def test_sound(self):
        self.assertEqual([], self.problems(NOVA + SHIM))

    def test_shim_out_of_reach(self):
        (problem,) = self.problems(NOVA)
        self.assertIn("Nova cannot import nova.virt.perf_tuning", problem)

    def test_editable_nova_hidden_by_our_wheel(self):
        (problem,) = self.problems(SHIM)
        self.assertIn("install nova-perf-tuning editable as well", problem)

    def test_both_in_one_namespace(self):
        """As Python sees both of them installed editable: nova/ has no __init__.py, and all is found in it."""
        self.assertEqual([], self.problems(NOVA[1:] + SHIM))

    def test_no_nova(self):
        for files in ((), SHIM):
            (problem,) = self.problems(files, version=None)
            self.assertIn("Nova is not installed", problem)
