# SPDX-License-Identifier: Apache-2.0
"""tools/release on a clone with one commit: what it refuses, and the files that it makes."""

import hashlib
import json
import os
import pathlib
import subprocess
import sys
import tarfile
import zipfile

import fixtures

from tests.support import directories, patience, sysroots

TOP = pathlib.Path(__file__).parents[3]
IDENTITY = ("-c", "user.name=test", "-c", "user.email=test@example.org")


class ReleaseTest(directories.DirectoryCase):
    """Debian packages and the image are left out: tools/test.sh debian builds the packages."""

    def setUp(self):
        super().setUp()
        # Thousands of files: in memory, where programs of there may be run.
        memory = sysroots.workplace()
        if memory and not os.statvfs(memory).f_flag & os.ST_NOEXEC:
            self.directory = pathlib.Path(self.useFixture(fixtures.TempDir(memory)).path)
        self.clone = self.directory / "clone"
        self.clone.mkdir()
        owned = ("git", "-c", f"safe.directory={TOP}", "-c", f"safe.directory={TOP}/.git")
        tree = subprocess.run(
            [*owned, "archive", "HEAD"], cwd=TOP, capture_output=True, check=True
        )
        subprocess.run(["tar", "-x"], cwd=self.clone, input=tree.stdout, check=True)
        self.git("init", "-q")
        self.commit()

    def git(self, *words):
        subprocess.run(["git", *IDENTITY, *words], cwd=self.clone, check=True)

    def commit(self):
        self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", "x")

    def release(self, *words):
        environment = {**os.environ, "VENV": sys.prefix}
        return patience.run([self.clone / "tools/release", *words], env=environment)

    def refused(self, words, *arguments):
        done = self.release("--without-image", "--without-debs", *arguments)
        self.assertEqual((3, "", 1), (done.returncode, done.stdout, done.stderr.count("\n")))
        self.assertIn(words, done.stderr)
        self.assertTrue(done.stderr.startswith("release: "))

    def test_wrong_versions(self):
        self.refused("give three numbers", "0.1")
        self.refused("give three numbers", "v0.1.0")
        self.refused("ansible/galaxy.yml says 0.1.0", "0.2.0")
        self.git("tag", "0.1.0")
        self.refused("the last commit has the tag 0.1.0", "0.2.0")
        self.commit()
        self.refused("0.1.0: it is the tag of commit", "0.1.0")
        self.refused("does not follow 0.1.0", "0.0.9")

    def test_no_change_without_commit_and_no_file_replaced(self):
        (self.clone / "README.rst").write_text("changed")
        self.refused("such as 'README.rst'; commit", "0.1.0")
        self.commit()
        (self.clone / "new.py").touch()
        self.refused("such as 'new.py'; commit", "0.1.0")
        (self.clone / "new.py").unlink()
        self.refused(f"{self.directory} exists", "0.1.0", str(self.directory))
        done = self.release("--without-debs", "0.1.0")
        self.assertEqual(3, done.returncode)
        self.assertIn("--without-debs requires --without-image", done.stderr)

    def test_files(self):
        done = self.release("--without-image", "--without-debs", "0.1.0")
        self.assertEqual(0, done.returncode, done.stderr)
        made = self.clone / "dist" / "0.1.0"
        names = {path.name.replace("nova_perf_", "nova-perf-") for path in made.iterdir()}
        wheel = "nova_perf_tuning-0.1.0-py3-none-any.whl"
        expected = {
            wheel.replace("nova_perf_", "nova-perf-"),
            "nova-perf-tuning-0.1.0.tar.gz",  # the sdist
            "nova_perf-tuning-0.1.0.tar.gz",  # the collection
            "nova-perf-tuning-0.1.0.cdx.json",
            "nova-perf-tuning-0.1.0-release-notes.rst",
            "SHA256SUMS",
        }
        self.assertEqual(expected, names)

        sums = dict(
            line.split("  ")[::-1] for line in (made / "SHA256SUMS").read_text().split("\n")[:-1]
        )
        self.assertEqual(len(names) - 1, len(sums))
        for name, digest in sums.items():
            self.assertEqual(digest, hashlib.sha256((made / name).read_bytes()).hexdigest(), name)
        with zipfile.ZipFile(made / wheel) as packed:
            metadata = packed.read("nova_perf_tuning-0.1.0.dist-info/METADATA").decode()
            commit = json.loads(packed.read("nova_perf_tuning-0.1.0.dist-info/pbr.json"))
        self.assertTrue(commit["is_release"], "a signed tag would give another wheel")
        self.assertIn("\nVersion: 0.1.0\n", metadata)
        with tarfile.open(made / "nova_perf-tuning-0.1.0.tar.gz") as packed:
            manifest = json.load(packed.extractfile("MANIFEST.json"))
            times = {member.mtime for member in packed.getmembers()}
        self.assertEqual("0.1.0", manifest["collection_info"]["version"])
        self.assertEqual(1, len(times), "a time of the build is in the collection")
        notes = (made / "nova-perf-tuning-0.1.0-release-notes.rst").read_text()
        self.assertIn("This is the first release.", notes)
        self.check_sbom(json.loads((made / "nova-perf-tuning-0.1.0.cdx.json").read_text()))

    def check_sbom(self, sbom):
        about = sbom["metadata"]["component"]
        self.assertEqual(
            ("CycloneDX", "nova-perf-tuning", "0.1.0"),
            (sbom["bomFormat"], about["name"], about["version"]),
        )
        parts = {component["name"] for component in sbom["components"]}
        for extra, name in (("", "lxml"), ("validation", "scipy"), ("cloud", "openstacksdk")):
            self.assertIn(name, parts, extra)
        self.assertEqual(set(), {"pip", "cyclonedx-bom"} & parts)
