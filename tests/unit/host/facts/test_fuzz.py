"""Mutated hosts never make reading raise anything but FactsError, block, or give what cannot be printed."""

from __future__ import annotations

import contextlib
import io
import json
import os
import pathlib
import shutil
import tempfile

import testtools
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_perf_tuning.cli import topology
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import archive, reader
from nova_perf_tuning.host.facts.root import FactsError
from tests.hosts import sysroots

_RECORDINGS = sorted((pathlib.Path(__file__).parents[3] / "hosts" / "recorded").glob("*.tar.xz"))
_GARBAGE = st.one_of(
    st.binary(max_size=40),
    st.text(alphabet="0123456789abcdef,-:()/ \n", max_size=40).map(str.encode),
    st.sampled_from(
        [
            b"",
            b"-1\n",
            b"0-99999999\n",
            b"9" * 400,
            b"0-65535\n",
            b"65535\n",
            b",,,",
            b"3-1\n",
            b"(null)\n",
            b"\x1b]0;owned\x07",
            "\udcff\u202e".encode("utf-8", "surrogateescape"),
            b"x" * 100_000,
            b"<domain type='kvm'><name>x</name><vcpu>-1</vcpu></domain>",
            b"<!DOCTYPE d [<!ENTITY e SYSTEM 'file:///etc/passwd'>]><domain>&e;</domain>",
        ]
    ),
)


def _printable(facts: model.HostFacts) -> None:
    """Both forms of output can be made of the facts, and encoded."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        topology.show(facts)
    text = json.dumps(topology.as_json(facts), ensure_ascii=False)
    (text + output.getvalue()).encode()
    assert "\x1b" not in output.getvalue()


class Damaged(archive.ArchiveRoot):
    """A recording of which some files and links are gone, or hold something else."""

    def damage(self, data: st.DataObject) -> None:
        files = sorted(path for path, entry in self._entries.items() if isinstance(entry, bytes))
        links = sorted(path for path, entry in self._entries.items() if isinstance(entry, str))
        for path in data.draw(st.lists(st.sampled_from(files), max_size=60)):
            content = data.draw(st.none() | _GARBAGE)
            if content is None:
                self._entries.pop(path, None)
            else:
                self._entries[path] = content
        odd = [*links, ".", "..", "/", "/etc", "missing", ""]
        for path in data.draw(st.lists(st.sampled_from([*links, *files[:50]]), max_size=6)):
            self._entries[path] = data.draw(st.sampled_from([*odd, path]))


class TestMutatedRecordings(testtools.TestCase):
    """In memory, where changes cost nothing."""

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_any_file_may_be_anything(self, data: st.DataObject) -> None:
        root = Damaged(str(data.draw(st.sampled_from(_RECORDINGS))))
        root.damage(data)
        _printable(reader.read_root(root))


class TestMutatedDirectories(testtools.TestCase):
    """On disk, with what only a file system has: folders for files, FIFOs, links out and in circles, no access."""

    def setUp(self) -> None:
        super().setUp()
        self.host = sysroots.make_host(self)
        self.paths = sorted(
            os.path.relpath(os.path.join(folder, name), self.host)
            for folder, folders, names in os.walk(self.host)
            for name in [*folders, *names]
            if "statistics" not in folder and "/cache" not in folder
        )

    def mutate(self, path: str, how: str, garbage: bytes) -> None:
        if not os.path.lexists(path):
            return
        if os.path.isdir(path) and not os.path.islink(path):
            shutil.rmtree(path)
        else:
            os.unlink(path)
        if how == "folder":
            os.makedirs(f"{path}/inside")
        elif how == "fifo":
            os.mkfifo(path)
        elif how == "link out":
            os.symlink("/etc" if len(garbage) % 2 else "/proc/self/environ", path)
        elif how == "circle":
            os.symlink(os.path.basename(path), path)
        elif how == "no access":
            pathlib.Path(path).write_bytes(garbage)
            os.chmod(path, 0)
        elif how == "garbage":
            pathlib.Path(path).write_bytes(garbage)

    @settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_any_path_may_be_anything(self, data: st.DataObject) -> None:
        with tempfile.TemporaryDirectory(prefix="nova-perf-fuzz-", dir=sysroots.workplace()) as folder:
            root = os.path.join(folder, "root")
            shutil.copytree(self.host, root, symlinks=True)
            kinds = st.sampled_from(("gone", "folder", "fifo", "link out", "circle", "no access", "garbage"))
            changes = st.lists(st.tuples(st.sampled_from(self.paths), kinds, _GARBAGE), min_size=1, max_size=40)
            for path, how, garbage in data.draw(changes):
                self.mutate(os.path.join(root, path), how, garbage)
            with contextlib.suppress(FactsError):
                _printable(reader.read_host(root))
