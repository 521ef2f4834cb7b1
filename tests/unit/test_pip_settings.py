# SPDX-License-Identifier: Apache-2.0
"""pip's configuration reaches uv; what uv would not follow is named."""

import pathlib
import runpy
import types

import fixtures

from tests.support import testcase

TOOL = types.SimpleNamespace(
    **runpy.run_path(pathlib.Path(__file__).parents[2] / "tools/pip_settings.py")
)


class PipSettingsTest(testcase.TestCase):
    def variables(self, *lines, **environment):
        return TOOL.variables(TOOL.settings("\n".join(lines)), environment)

    def test_indexes_of_pip_become_those_of_uv(self):
        variables = self.variables(
            "global.index-url='https://user:secret@index/simple'",
            "global.extra-index-url='\\nhttps://one/simple\\nhttps://two/simple'",
            "global.trusted-host='index one'",
        )
        self.assertEqual("https://user:secret@index/simple", variables["UV_DEFAULT_INDEX"])
        self.assertEqual("https://one/simple https://two/simple", variables["UV_INDEX"])
        self.assertEqual("unsafe-best-match", variables["UV_INDEX_STRATEGY"])
        self.assertEqual("index one", variables["UV_INSECURE_HOST"])

    def test_environment_wins_over_install_and_that_over_global(self):
        lines = [
            "install.timeout='2'",
            ":env:.default-timeout='3'",
            "global.timeout='1'",
            "download.timeout='4'",
        ]
        self.assertEqual("3", self.variables(*lines)["UV_HTTP_TIMEOUT"])
        self.assertEqual("2", self.variables(lines[0], *lines[2:])["UV_HTTP_TIMEOUT"])

    def test_variables_of_uv_stay(self):
        variables = self.variables(
            "global.index-url='https://index/simple'", UV_DEFAULT_INDEX="https://own/simple"
        )
        self.assertNotIn("UV_DEFAULT_INDEX", variables)

    def test_no_index_and_directories(self):
        directory = self.useFixture(fixtures.TempDir()).path
        variables = self.variables(
            "global.no-index='true'", f":env:.find-links='{directory} /missing https://host/files'"
        )
        self.assertEqual("1", variables["NO_INDEX"])
        self.assertEqual(f"{directory},https://host/files", variables["UV_FIND_LINKS"])
        self.assertNotIn("NO_INDEX", self.variables("global.no-index='false'"))

    def test_certificates_of_pip_become_those_of_uv(self):
        directory = self.useFixture(fixtures.TempDir()).path
        bundle = f"{directory}/bundle.crt"
        self.assertEqual(
            {"SSL_CERT_FILE": bundle},
            self.variables(f"global.cert='{bundle}'", CURL_CA_BUNDLE="/x"),
        )
        self.assertEqual({"SSL_CERT_FILE": bundle}, self.variables(REQUESTS_CA_BUNDLE=bundle))
        self.assertEqual({"SSL_CERT_DIR": directory}, self.variables(f"global.cert='{directory}'"))

    def test_settings_of_pip_alone_and_unknown_ones(self):
        self.assertEqual(
            {"UV_SYSTEM_CERTS": "1"}, self.variables(":env:.disable-pip-version-check='1'")
        )
        self.assertRaises(
            TOOL.UnknownSetting, self.variables, "global.constraint='https://host/constraints'"
        )
