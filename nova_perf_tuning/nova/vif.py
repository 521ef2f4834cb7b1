"""Interfaces: Nova's VIF driver, whose result is the source for boot, hot plug, detach and live migration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import vif

from nova_perf_tuning.nova import error_policy, hotplug


class PerfVIFDriver(vif.LibvirtGenericVIFDriver):
    """Nova's VIF driver with the guest's request in what it renders of an interface that is plugged in.

    The object that Nova gets back stays its own class, since detach looks running interfaces up by class.

    :param tune: function of (instance, what renders the interface) to its element, for hot plug.
    """

    def __init__(self, host: Any, tune: Callable[[Any, Callable[[], Any]], Any]) -> None:
        super().__init__(host)
        self._tune = tune

    def get_config(
        self, instance: Any, vif: Any, image_meta: Any, flavor: Any, virt_type: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Return Nova's config object; of an interface that is plugged in, with ``format_dom`` of it replaced."""
        conf = super().get_config(instance, vif, image_meta, flavor, virt_type, *args, **kwargs)
        virtio = isinstance(conf, vconfig.LibvirtConfigGuestInterface) and conf.model == "virtio"
        if not virtio or not error_policy.asks(instance):
            return conf
        if virt_type == "qemu" and conf.vhost_queues is None:
            # Nova makes the tap device for several queues whatever the type, but asks libvirt for them with kvm
            # only; such a device cannot be opened with one, and the guest would not start.
            conf.vhost_queues = self._get_virtio_mq_settings(image_meta, flavor)[1]
        if hotplug.guest.get() is not None:
            conf.format_dom = functools.partial(self._tune, instance, conf.format_dom)
        return conf
