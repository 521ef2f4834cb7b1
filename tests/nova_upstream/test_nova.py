# SPDX-License-Identifier: Apache-2.0
"""Hands Nova's test classes to the runner; they say ``libvirt.LibvirtDriver`` and get ours."""

import functools

from nova.tests.functional.libvirt.test_numa_live_migration import *  # noqa: F403
from nova.tests.functional.libvirt.test_numa_servers import *  # noqa: F403
from nova.tests.functional.libvirt.test_pci_sriov_servers import *  # noqa: F403
from nova.tests.functional.libvirt.test_vif_model import *  # noqa: F403
from nova.virt import driver as virt_driver

from nova_perf_tuning.nova import driver

_load = virt_driver.load_compute_driver


@functools.wraps(_load)
def _load_ours(virtapi, compute_driver=None):
    """Load our driver, and make sure that it is what the test runs with."""
    name = compute_driver or virt_driver.CONF.compute_driver
    if name == "libvirt.LibvirtDriver":
        loaded = _load(virtapi, "perf_tuning.PerfTuningLibvirtDriver")
        assert type(loaded) is driver.PerfTuningLibvirtDriver
        return loaded
    return _load(virtapi, compute_driver)


virt_driver.load_compute_driver = _load_ours
