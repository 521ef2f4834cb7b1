# SPDX-License-Identifier: Apache-2.0
"""glance-manage loads the metadata definitions, and renews those of an older release."""

import contextlib
import importlib.metadata
import pathlib
import sqlite3
import subprocess
import sys
import tempfile

import testtools

from nova_perf_tuning.nova import TESTED, metadefs
from tests.support import testcase

DIRECTORY = metadefs.DIRECTORY
RELEASE = int(importlib.metadata.version("nova").split(".")[0])


# The definitions are the same whichever Nova runs beside them, so one Glance is enough; the environments of older
# Nova releases are spared another service's dependencies.
@testtools.skipUnless(
    TESTED[1] == RELEASE, "Glance is in the environment of the newest release only"
)
class GlanceTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        directory = self.enterContext(tempfile.TemporaryDirectory())
        self.database, self.configuration = (
            f"{directory}/glance.sqlite",
            f"{directory}/glance-api.conf",
        )
        pathlib.Path(self.configuration).write_text(
            f"[database]\nconnection = sqlite:///{self.database}\n"
        )
        self.manage("db_sync")

    def manage(self, *arguments):
        program = pathlib.Path(sys.executable).with_name("glance-manage")
        argv = [program, "--config-file", self.configuration, *arguments]
        done = subprocess.run(
            argv, capture_output=True, text=True, env={"PYTHONWARNINGS": "ignore"}
        )
        self.assertEqual(0, done.returncode, done.stderr[-3000:])

    def rows(self, statement):
        with contextlib.closing(sqlite3.connect(self.database)) as connection, connection:
            return connection.execute(statement).fetchall()

    def test_load_and_renew(self):
        expected = {
            (entry["namespace"], key, definition["title"])
            for entry in metadefs.namespaces().values()
            for key, definition in entry["properties"].items()
        }
        query = (
            "SELECT namespace, name, json_extract(json_schema, '$.title') FROM metadef_properties "
            "JOIN metadef_namespaces ON metadef_namespaces.id = namespace_id"
        )
        self.manage("db_load_metadefs", str(DIRECTORY))
        self.assertEqual(expected, set(self.rows(query)))
        self.rows("UPDATE metadef_properties SET name = 'old' WHERE name = 'iothreads'")
        self.manage("db_load_metadefs", str(DIRECTORY), "true", "", "true")
        self.assertEqual(expected, set(self.rows(query)))
