# SPDX-License-Identifier: Apache-2.0
"""A case with a directory of its own."""

import pathlib

import fixtures

from tests.support import testcase


class DirectoryCase(testcase.TestCase):
    """``self.directory`` is there from the beginning of a test to its end."""

    def setUp(self) -> None:
        super().setUp()
        self.directory = pathlib.Path(self.useFixture(fixtures.TempDir()).path)

    def write_file(self, name: str, content: str | bytes) -> str:
        """Write a file there, and the directories that it needs; return its path."""
        path = self.directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return str(path)
