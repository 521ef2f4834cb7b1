# SPDX-License-Identifier: Apache-2.0
"""What nova-perf generates for nova.conf: read by oslo.config with Nova's options, used by Nova's code."""

import os
import pathlib
import subprocess
import sys
import tempfile

from nova import conf as nova_conf
from nova import test as nova_test
from nova.conf import neutron as neutron_conf
from nova.virt import hardware

from nova_perf_tuning import cpulist
from nova_perf_tuning.host.audit import generate
from nova_perf_tuning.host.input import novaconf
from tests.support import audit_hosts as hosts
from tests.support import testcase

CONF = nova_conf.CONF
VALIDATOR = pathlib.Path(sys.executable).parent / "oslo-config-validator"


def generated(changes: hosts.Tree) -> str:
    """Return the nova.conf that is proposed for the good host with ``changes``."""
    return generate.nova_conf(hosts.view(hosts.changed(hosts.good(), changes)))


class GeneratedTest(nova_test.NoDBTestCase):
    def read(self, text: str) -> None:
        """Let Nova read ``text`` as its only configuration file."""
        with tempfile.NamedTemporaryFile("w", suffix=".conf", delete=False) as file:
            file.write(text)
        self.addCleanup(os.unlink, file.name)
        for section, _key in novaconf.parse(text):
            if section.startswith(novaconf.PHYSNET):
                name = section.removeprefix(novaconf.PHYSNET)
                self.flags(physnets=[name], group="neutron")
                neutron_conf.register_dynamic_opts(CONF)
        CONF([], project="nova", default_config_files=[file.name])
        self.addCleanup(CONF, [], project="nova", default_config_files=[])

    def test_nova_understands_it(self) -> None:
        for changes in ({}, {"etc/nova/nova.conf": None}):
            with self.subTest(changes):
                self.read(generated(changes))
                dedicated, shared = hardware.get_cpu_dedicated_set(), hardware.get_cpu_shared_set()
                self.assertEqual(set(range(16)), dedicated | shared)
                self.assertEqual(set(), dedicated & shared)
                self.assertEqual([0], CONF.neutron_physnet_physnet1.numa_nodes)
        self.read(generated({}))
        self.assertEqual(cpulist.parse(hosts.DEDICATED), hardware.get_cpu_dedicated_set())


class ValidatorTest(testcase.TestCase):
    """oslo-config-validator knows every option of Nova but those of sections named by physical networks."""

    def validate(self, text: str) -> subprocess.CompletedProcess[str]:
        with tempfile.NamedTemporaryFile("w", suffix=".conf") as file:
            file.write(text)
            file.flush()
            return subprocess.run(
                [VALIDATOR, "--input-file", file.name, "--namespace", "nova.conf",
                 "--exclude-group", f"{novaconf.PHYSNET}physnet1"],
                capture_output=True, text=True, check=False,
            )  # fmt: skip

    def test_no_option_is_unknown(self) -> None:
        done = self.validate(generated({}))
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
