"""Mutated hosts never make reading raise anything but FactsError, block, or give what cannot be printed."""

from __future__ import annotations

import contextlib
import io
import json
import pathlib

import testtools
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nova_perf_tuning.cli import topology
from nova_perf_tuning.host import model
from nova_perf_tuning.host.facts import archive, reader

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

    @settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(st.data())
    def test_any_file_may_be_anything(self, data: st.DataObject) -> None:
        root = Damaged(str(data.draw(st.sampled_from(_RECORDINGS))))
        root.damage(data)
        _printable(reader.read_root(root))
