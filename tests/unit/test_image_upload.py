# SPDX-License-Identifier: Apache-2.0
"""tools/image/upload: a cloud never is without the image, and what goes wrong is one line."""

import contextlib
import importlib.machinery
import io
import os
import pathlib
import types

import fixtures

from tests.support import api_server, openstack_program

TOOL = types.ModuleType("upload")
importlib.machinery.SourceFileLoader(
    "upload", str(pathlib.Path(__file__).parents[2] / "tools" / "image" / "upload")
).exec_module(TOOL)
REFUSED = api_server.Answer(413, {"message": "Glance is full"})


class UploadTest(openstack_program.ProgramTestCase):
    def upload(self, made_from):
        """Run the tool; return why it ended (None: well), stdout and stderr."""
        directory = os.path.dirname(self.write_file(f"img-{made_from}/guest.qcow2", b"QFI\xfb"))
        out, err = io.StringIO(), io.StringIO()
        self.useFixture(
            fixtures.MonkeyPatch(
                "sys.argv",
                ["upload", "--os-cloud", "test", "--directory", directory, "perf-guest"],
            )
        )
        code = None
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                TOOL.main()
            except SystemExit as stop:
                code = stop.code
        return code, out.getvalue().strip(), err.getvalue()

    def images(self):
        return {image["name"]: image["id"] for image in self.cloud.images.values()}

    def test_a_new_image_takes_the_name_of_the_old_one(self):
        _, first, messages = self.upload("111")
        self.assertEqual({"perf-guest": first}, self.images(), messages)
        self.assertEqual(first, self.upload("111")[1])
        _, second, _ = self.upload("222")
        self.assertEqual({"perf-guest": second, "perf-guest-111": first}, self.images())
        self.assertEqual((None, first), self.upload("111")[:2], "the recipe was taken back")
        self.assertEqual({"perf-guest": first, "perf-guest-222": second}, self.images())

    def test_the_old_image_keeps_its_name_when_the_new_one_fails(self):
        _, first, _ = self.upload("111")
        self.cloud.faults.append(("POST", "/v2/images$", REFUSED))
        why, _, messages = self.upload("222")
        self.assertRegex(why, "image/upload: .*413")
        self.assertEqual("", messages)
        self.assertEqual({"perf-guest": first}, self.images())

    def test_an_image_that_never_got_its_data_is_not_taken(self):
        """As it is left where the tool was killed between the two."""
        _, killed, _ = self.upload("111")
        self.cloud.images[killed] |= {"status": "queued", "name": "perf-guest-111"}
        code, second, messages = self.upload("111")
        self.assertIsNone(code, messages)
        self.assertNotEqual(killed, second)
        self.assertEqual({"perf-guest": second, "perf-guest-111": killed}, self.images())
        self.assertEqual("active", self.cloud.images[second]["status"])

    def test_images_of_other_projects_are_left_alone(self):
        other = self.cloud.add_image("perf-guest", nova_perf_image="111", owner="somebody-else")
        _, own, messages = self.upload("111")
        self.assertNotEqual(other["id"], own, messages)
        self.assertEqual({"perf-guest"}, set(self.images()))

    def test_no_way_to_the_cloud_is_one_line(self):
        self.useFixture(fixtures.MonkeyPatch(f"{__name__}.TOOL.TIMEOUT_S", 0.2))
        self.cloud.faults = [("GET", "^/image", None)] * 9
        self.assert_one_line(self.upload("111"))
        for settings in (
            {"url": "http://127.0.0.1:1"},
            {"url": f"{self.cloud.url}/image"},
            {"password": "wrong"},
        ):
            with self.subTest(settings):
                self.write_clouds(**settings)
                self.assert_one_line(self.upload("111"))
        self.write_file("clouds.yaml", "clouds: {test: {auth: {username: a}}}")
        self.assert_one_line(self.upload("111"))
        os.unlink(f"{self.directory}/clouds.yaml")
        self.assert_one_line(self.upload("111"))

    def assert_one_line(self, done):
        """The interpreter itself prints why it ended."""
        why, shown, messages = done
        self.assertEqual(("", ""), (shown, messages))
        self.assertTrue(why.startswith("image/upload: "), why)
        self.assertEqual(1, len(why.splitlines()))
