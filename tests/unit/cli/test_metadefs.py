"""nova-perf metadefs as an operator runs it; a real Glance is in tests/nova."""

import contextlib
import http.server
import importlib.util
import json
import os
import subprocess
import sys
import threading

import fixtures
import testtools

from nova_perf_tuning.metadefs import definitions

PROGRAM = (
    "import argparse, sys\n"
    "from nova_perf_tuning.cli import main, metadefs\n"
    "command = {'show': metadefs.MetadefsShow, 'load': metadefs.MetadefsLoad}[sys.argv[1]]\n"
    "found = command(main.PerfApp(), argparse.Namespace(debug=False), 'metadefs ' + sys.argv[1])\n"
    "sys.exit(found.run(found.get_parser('metadefs').parse_args(sys.argv[2:])))\n"
)


class MetadefsTest(testtools.TestCase):
    def setUp(self):
        super().setUp()
        self.folder = self.useFixture(fixtures.TempDir()).path

    def run_command(self, *arguments):
        """Run without anything of a cloud in the environment."""
        clean = {name: value for name, value in os.environ.items() if not name.startswith("OS_")}
        clean |= {"HOME": self.folder, "XDG_CONFIG_HOME": self.folder}
        return subprocess.run(
            [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, env=clean, cwd=self.folder
        )

    def test_show(self):
        done = self.run_command("show", "-f", "json")
        self.assertEqual(["", 0], [done.stderr, done.returncode])
        self.assertEqual(list(definitions.namespaces().values()), json.loads(done.stdout)["namespaces"])
        done = self.run_command("show")
        for key in ("perf:iothreads", "perf:vif_host_offload.csum", "hw_perf_vif_host_offload_csum"):
            self.assertIn(key, done.stdout)

    def test_write(self):
        folder = os.path.join(self.folder, "written")
        os.mkdir(folder)
        self.assertEqual(0, self.run_command("show", "--write", folder).returncode)
        for name, entry in definitions.namespaces().items():
            with open(os.path.join(folder, name)) as file:
                self.assertEqual(definitions.text(entry), file.read())
        self.assertEqual(sorted(definitions.namespaces()), sorted(os.listdir(folder)))

    def test_write_to_nowhere_is_one_line(self):
        self.refused("/nonexistent", "show", "--write", "/nonexistent")

    def test_answers_of_something_else(self):
        """A portal's page, a proxy's JSON: the line says which cloud, and asks for no report."""
        for answer in (b"<html>", b"[1, 2]", b"null", b"7", b"[" * 100_000):
            with self.server(answer) as port:
                endpoint = f"http://127.0.0.1:{port}/v2/"
                cloud = {"auth_type": "none", "auth": {"endpoint": endpoint}, "image_endpoint_override": endpoint}
                with open(os.path.join(self.folder, "clouds.yaml"), "w") as file:
                    json.dump({"clouds": {"odd": cloud}}, file)
                self.refused("cloud odd: ", "load", "--os-cloud", "odd")

    @contextlib.contextmanager
    def server(self, answer):
        """Answer every request with the same; give the port."""

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            do_POST = do_PUT = do_GET

            def log_message(self, *_):
                pass

        with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield server.server_address[1]
            finally:
                server.shutdown()
                thread.join()

    def test_load_without_a_cloud_is_one_line(self):
        sdk = importlib.util.find_spec("openstack") is not None
        self.refused("auth_url" if sdk else "nova-perf-tuning[cloud]", "load")
        self.refused("no-such" if sdk else "nova-perf-tuning[cloud]", "load", "--os-cloud", "no-such")

    def refused(self, words, *arguments):
        done = self.run_command(*arguments)
        self.assertEqual(["", 3], [done.stdout, done.returncode], done.stderr)
        self.assertEqual(1, len(done.stderr.splitlines()), done.stderr)
        self.assertIn(words, done.stderr)
