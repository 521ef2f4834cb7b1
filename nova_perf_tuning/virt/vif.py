"""Interfaces: Nova's VIF driver, whose result is the source for boot, hot plug, detach and live migration."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from lxml import etree
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import vif

from nova_perf_tuning.virt import faults


class PerfVIFDriver(vif.LibvirtGenericVIFDriver):
    """Nova's VIF driver with the guest's request in what it renders.

    The object that Nova gets back stays its own class, since detach looks running interfaces up by class.
    Only its rendering is replaced, and only while :mod:`nova_perf_tuning.virt.faults` knows of work on the
    guest: in detach, which renders for its log, nothing of ours runs, so no fault keeps an interface in a guest.

    :param tune: function of (instance, XML of one interface) to XML, for hot plug.
    """

    def __init__(self, host: Any, tune: Callable[[Any, str], str]) -> None:
        super().__init__(host)
        self._tune = tune

    def get_config(
        self, instance: Any, vif: Any, image_meta: Any, flavor: Any, virt_type: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Return Nova's config object; of an interface that is plugged in, with ``format_dom`` of it replaced."""
        conf = super().get_config(instance, vif, image_meta, flavor, virt_type, *args, **kwargs)
        job = faults.current()
        if job is None or (job.whole_domain and virt_type != "qemu"):
            return conf
        if not isinstance(conf, vconfig.LibvirtConfigGuestInterface) or conf.model != "virtio":
            return conf
        if virt_type == "qemu":
            with faults.guarded(job):
                if conf.vhost_queues is None and faults.asks(job.instance):
                    # Nova makes the tap device for several queues whatever the type, but asks libvirt for them
                    # with kvm only; such a device cannot be opened with one, and the guest would not start.
                    conf.vhost_queues = self._get_virtio_mq_settings(image_meta, flavor)[1]
        if not job.whole_domain:
            # Not a closure: its cells would be made for every interface, rendered by us or not.
            conf.format_dom = functools.partial(self._render, job, conf.format_dom)
        return conf

    def _render(self, job: faults.Work, render: Callable[[], Any]) -> Any:
        element = render()
        with faults.guarded(job):
            xml = etree.tostring(element, encoding="unicode")
            tuned = self._tune(job.instance, xml)
            if tuned != xml:
                return etree.fromstring(tuned)
        return element
