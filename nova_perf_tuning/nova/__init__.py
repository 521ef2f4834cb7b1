# SPDX-License-Identifier: Apache-2.0
"""The part that runs inside nova-compute: a subclass of Nova's libvirt driver, loaded by ``compute_driver``.

Written to run unchanged on Nova 31 to 34. Every override takes the parameters that are stable over
these releases by name and passes all others through.
"""

from typing import Any, Final, TypeAlias

#: Releases of Nova that the functional tests run on.
TESTED: Final = (31, 34)

# Nova is untyped: these names say which of its types is meant.
#: ``nova.objects``: an instance, a flavor.
Instance: TypeAlias = Any
Flavor: TypeAlias = Any
#: ``nova.virt.libvirt``: ``host.Host``, ``guest.Guest``, an object of ``config``.
Host: TypeAlias = Any
Guest: TypeAlias = Any
ConfigObject: TypeAlias = Any
#: Configuration with the options of :mod:`nova_perf_tuning.conf.nova`.
Options: TypeAlias = Any
#: ``nova.compute.provider_tree``.
ProviderTree: TypeAlias = Any
#: Of the scheduler: ``host_manager.HostState``, ``objects.RequestSpec``.
HostState: TypeAlias = Any
RequestSpec: TypeAlias = Any
