"""nova-perf metadefs load against a real Glance API on loopback."""

import importlib.metadata
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import openstack
import testtools

from nova_perf_tuning.metadefs import definitions
from nova_perf_tuning.virt import TESTED

HERE = pathlib.Path(__file__).parent
PROGRAMS = pathlib.Path(sys.executable).parent
RELEASE = int(importlib.metadata.version("nova").split(".")[0])
FLAVOR = "OS::Compute::PerfTuning"


# The definitions are the same whichever Nova runs beside them, so one real Glance is enough; the environments of
# older Nova releases are spared another service's dependencies.
@testtools.skipUnless(TESTED[1] == RELEASE, "Glance is in the environment of the newest release only")
class GlanceTest(testtools.TestCase):
    """A server and a database for each test."""

    def setUp(self):
        super().setUp()
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name
        self.environment = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        self.environment |= {
            "HOME": self.folder,
            "PYTHONWARNINGS": "ignore",
            "OS_CLIENT_CONFIG_FILE": f"{self.folder}/clouds.yaml",
        }
        self.start()
        self.write_clouds(admin="admin", reader="reader")
        loader = openstack.config.OpenStackConfig(config_files=[f"{self.folder}/clouds.yaml"])
        self.image = openstack.connection.Connection(config=loader.get_one("admin")).image

    def start(self):
        """Start Glance and remember its port."""
        log = open(f"{self.folder}/glance.log", "w")
        self.addCleanup(log.close)
        server = subprocess.Popen(
            [sys.executable, str(HERE / "glance_server.py"), self.folder],
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=self.environment,
            cwd=self.folder,  # Glance's tests, which its tokens come from, write a log where they are
        )
        self.addCleanup(server.stdout.close)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)
        line = server.stdout.readline()
        self.assertTrue(line.strip().isdigit(), pathlib.Path(f"{self.folder}/glance.log").read_text()[-3000:])
        self.port = int(line)

    def write_clouds(self, **roles):
        """Write clouds.yaml with one cloud for each name -> role."""
        url = f"http://127.0.0.1:{self.port}"
        clouds = {
            name: {
                "auth_type": "admin_token",
                "auth": {"endpoint": url, "token": f"user:project:{role}"},
                "image_endpoint_override": url,
            }
            for name, role in roles.items()
        }
        pathlib.Path(f"{self.folder}/clouds.yaml").write_text(json.dumps({"clouds": clouds}))

    def load(self, cloud="admin"):
        """Run the command in a process of its own."""
        return subprocess.run(
            [
                str(pathlib.Path(sys.executable).parent / "nova-perf"),
                "metadefs",
                "load",
                "--os-cloud",
                cloud,
                "-f",
                "json",
            ],
            capture_output=True,
            text=True,
            env=self.environment,
            cwd=self.folder,
        )

    def loaded(self):
        """Load and return namespace -> counts that are not 0."""
        done = self.load()
        self.assertEqual(["", 0], [done.stderr, done.returncode])
        found = json.loads(done.stdout)["namespaces"]
        return {row.pop("namespace"): {what: count for what, count in row.items() if count} for row in found}

    def assert_in_glance(self):
        """Glance has exactly what the definitions say."""
        for wanted in definitions.namespaces().values():
            name = wanted["namespace"]
            found = self.image.get_metadef_namespace(name)
            self.assertEqual(
                [wanted[key] for key in ("display_name", "description", "visibility")],
                [found.display_name, found.description, found.visibility],
            )
            links = [[link.name, link.prefix] for link in self.image.metadef_resource_type_associations(name)]
            expected = [[link["name"], link["prefix"]] for link in wanted["resource_type_associations"]]
            self.assertEqual(sorted(expected), sorted(links))
            properties = {
                one.name: {key: value for key, value in one.to_dict().items() if key in definitions.PROPERTY_KEYS}
                for one in self.image.metadef_properties(name)
            }
            for key, one in wanted["properties"].items():
                expected = {part: one.get(part) for part in definitions.PROPERTY_KEYS}
                self.assertEqual(expected, properties.pop(key), key)
            self.assertEqual({}, properties)

    def test_load(self):
        counts = {
            entry["namespace"]: 1 + len(entry["properties"]) + len(entry["resource_type_associations"])
            for entry in definitions.namespaces().values()
        }
        self.assertEqual({name: {"created": count} for name, count in counts.items()}, self.loaded())
        self.assert_in_glance()
        self.assertEqual({name: {"unchanged": count} for name, count in counts.items()}, self.loaded())

        # Whatever has been changed since is brought back; that the operator protects it is left alone.
        self.image.create_metadef_property(FLAVOR, name="old", title="x", type="string")
        self.image.update_metadef_property(
            "iothreads", FLAVOR, name="iothreads", title="x", type="string", enum=["a"], description="d"
        )
        self.image.delete_metadef_property("budget", FLAVOR)
        self.image.delete_metadef_resource_type_association("OS::Nova::Flavor", FLAVOR)
        self.assertEqual(
            {"created": 2, "updated": 1, "removed": 1, "unchanged": counts[FLAVOR] - 3}, self.loaded()[FLAVOR]
        )
        self.assert_in_glance()
        self.image.update_metadef_namespace(FLAVOR, display_name="x", visibility="private", is_protected=True)
        self.assertEqual({"updated": 1, "unchanged": counts[FLAVOR] - 1}, self.loaded()[FLAVOR])
        self.assert_in_glance()
        self.assertTrue(self.image.get_metadef_namespace(FLAVOR).is_protected)
