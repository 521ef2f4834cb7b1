"""The compute driver: Nova's libvirt driver with the guest's request put into what it hands to libvirt.

Overrides as few methods as there are sources of domain XML. All of them call Nova's own first and change its
result, but two that refuse beforehand what is wrong. The parameters named are the same in Nova 31 to 34, all
others are passed through.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import nova.conf
from nova import exception
from nova.virt import hardware
from nova.virt.libvirt import driver
from oslo_log import log as logging

from nova_perf_tuning import errors
from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.guest import network, storage, transform
from nova_perf_tuning.nova import error_policy, guest_request, hotplug, migration, placement, traits
from nova_perf_tuning.nova import vif as vif_module
from nova_perf_tuning.specs import request as request_module

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
options.register_opts(CONF)


class PerfTuningLibvirtDriver(driver.LibvirtDriver):
    """``[DEFAULT] compute_driver = perf_tuning.PerfTuningLibvirtDriver``."""

    def __init__(self, virtapi: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(virtapi, *args, **kwargs)
        self.vif_driver = vif_module.PerfVIFDriver(self._host, self._tuned_interface)

    @functools.cached_property
    def _host_traits(self) -> traits.HostTraits:
        return traits.HostTraits(CONF)

    def init_host(self, host: str, *args: Any, **kwargs: Any) -> None:
        """Start as Nova does, then say in the log which options cannot be used."""
        super().init_host(host, *args, **kwargs)
        try:
            for mistake in options.mistakes(CONF):
                LOG.error("%s", mistake)
        except Exception:
            LOG.exception("The options were not looked at, nothing else")
        LOG.info("Guests are tuned by their perf: extra specs, on_error=%s", error_policy.on_error())

    # ---- whole domains: boot, rebuild, hard reboot, resize, rescue, unshelve, evacuate ----

    def _get_guest_config(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Return Nova's config object; if the guest asks for anything, with ``format_dom`` of this one replaced.

        Nova's ``to_xml`` prints what that returns, so what Nova logs is tuned as well.
        """
        conf = super()._get_guest_config(instance, *args, **kwargs)
        if error_policy.asks(instance):
            conf.format_dom = functools.partial(self._tuned_domain, instance, conf.format_dom)
        return conf

    def _tuned_domain(self, instance: Any, render: Callable[[], Any]) -> Any:
        element = render()
        try:
            request, warnings = guest_request.request(instance)
            nodes = _nodes(element)
            if request.emulator_placement == "numa" and nodes is not None:
                warnings += self._place_emulator(element, nodes)
            housekeeping = self._housekeeping(nodes, request)
            left_out = transform.write(element, request, housekeeping, self._can_map())
            self._log(instance, left_out, warnings)
        except Exception as error:
            error_policy.judge(instance, error)
            element = render()
            try:
                transform.mark_untuned(element, error_policy.cause(error))
            except Exception:
                LOG.exception("The guest is not marked as untuned", instance=instance)
        return element

    def _place_emulator(self, element: Any, nodes: frozenset[int]) -> tuple[str, ...]:
        """Move the emulator to the shared CPUs of the guest's nodes; from Nova 33 on the I/O thread as well."""
        cpus, warnings = self._emulator_cpus(nodes)
        if cpus:
            for pin in (*element.iterfind("cputune/emulatorpin"), *element.iterfind("cputune/iothreadpin")):
                pin.set("cpuset", hardware.format_cpu_spec(cpus))
        return warnings

    def _emulator_cpus(self, nodes: frozenset[int]) -> tuple[frozenset[int], tuple[str, ...]]:
        """Return the CPUs of an emulator whose guest asks for its own nodes; none, and why."""
        cpus = placement.shared_cpus(self._host, nodes)
        if cpus:
            return cpus, ()
        lack = "[compute] cpu_shared_set is not set" if cpus is None else "no CPU of cpu_shared_set is there"
        return frozenset(), (f"perf:emulator_placement=numa on node(s) {sorted(nodes)} is left out: {lack}",)

    # ---- refused while the guest still runs ----

    def _hard_reboot(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Reboot as Nova does, unless its flavor asks for something wrong: Nova takes the guest down first.

        :raises TuningFailed: it is; Nova leaves a guest that runs alone and keeps the reason as its fault.
        """
        failed = self._mistake(instance, None)
        if failed is not None:
            raise failed
        return super()._hard_reboot(context, instance, *args, **kwargs)

    def migrate_disk_and_power_off(
        self, context: Any, instance: Any, dest: Any, flavor: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Power off and copy as Nova does, unless what the new flavor asks for is wrong.

        Later, on the destination, there is no way back to the old flavor.

        :raises InstanceFaultRollback: it is; Nova puts the instance back to what it was and tells the reason.
        """
        failed = self._mistake(instance, flavor)
        if failed is not None:
            raise exception.InstanceFaultRollback(failed)
        return super().migrate_disk_and_power_off(context, instance, dest, flavor, *args, **kwargs)

    def _mistake(self, instance: Any, flavor: Any) -> error_policy.TuningFailed | None:
        """Return what is wrong with a flavor's request, where ``on_error`` refuses it; None for nothing."""
        try:
            if error_policy.on_error() == "fail":
                guest_request.request(instance, flavor)
        except errors.PerfTuningError as error:
            LOG.error("%s", error_policy.cause(error), instance=instance)
            return error_policy.failure(instance, error, flavor)
        except Exception:  # judged where the guest's XML is made; it may have passed until then
            LOG.exception("The request was not looked at beforehand", instance=instance)
        return None

    # ---- single devices: hot plug ----

    def attach_interface(
        self, context: Any, instance: Any, image_meta: Any, vif: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach as Nova does; when it cannot be tuned and ``on_error`` is ``fail``, leave no device behind."""
        with hotplug.plugging(instance):
            try:
                return super().attach_interface(context, instance, image_meta, vif, *args, **kwargs)
            except error_policy.TuningFailed:
                try:
                    self.vif_driver.unplug(instance, vif)
                except Exception:  # must not take the place of the reason
                    LOG.exception("A device of the refused interface is left on the host", instance=instance)
                raise

    def _tuned_interface(self, instance: Any, render: Callable[[], Any]) -> Any:
        element = render()
        try:
            request, _ = guest_request.request(instance)
            topology = instance.numa_topology
            nodes = frozenset(cell.id for cell in topology.cells) if topology else None
            kvm = CONF.libvirt.virt_type == "kvm"
            guest = network.Guest(instance.flavor.vcpus, kvm, self._housekeeping(nodes, request))
            self._log(instance, network.write(element, request, guest) if request.asks_network else ())
        except Exception as error:
            error_policy.judge(instance, error)
            return render()
        return element

    def attach_volume(
        self, context: Any, connection_info: Any, instance: Any, mountpoint: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach as Nova does; ``_get_volume_config``, which isn't told, knows the guest meanwhile."""
        with hotplug.plugging(instance):
            return super().attach_volume(context, connection_info, instance, mountpoint, *args, **kwargs)

    def _get_volume_config(self, connection_info: Any, disk_info: Any, *args: Any, **kwargs: Any) -> Any:
        conf = super()._get_volume_config(connection_info, disk_info, *args, **kwargs)
        instance = hotplug.guest.get()
        if instance is not None and error_policy.asks(instance):
            conf.format_dom = functools.partial(self._tuned_disk, instance, conf.format_dom)
        return conf

    def _tuned_disk(self, instance: Any, render: Callable[[], Any]) -> Any:
        element = render()
        try:
            request, _ = guest_request.request(instance)
            if request.iothreads or request.disk_queues:
                running = self._host.get_guest(instance).get_xml_desc()
                self._log(instance, hotplug.write_disk(element, running, request))
        except Exception as error:
            error_policy.judge(instance, error)
            return render()
        return element

    # ---- live migration ----

    def _get_live_migrate_numa_info(
        self, instance_numa_topology: Any, flavor: Any, image_meta: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Work out the pins on this host, the destination, as :meth:`_place_emulator` does at boot.

        A fault leaves Nova's own pins: the claim has been made and nothing would take it back.
        """
        info = super()._get_live_migrate_numa_info(instance_numa_topology, flavor, image_meta, *args, **kwargs)
        try:
            if "emulator_pins" in info and guest_request.of_flavor(flavor, {})[0].emulator_placement == "numa":
                nodes = frozenset(node for nodes in info.cell_pins.values() for node in nodes)
                cpus, warnings = self._emulator_cpus(nodes)
                info.emulator_pins = set(cpus) or info.emulator_pins
                for warning in warnings:
                    LOG.warning("%s", warning)
        except Exception:
            LOG.exception("The emulator of a guest that arrives is where Nova puts it")
        return info

    def _live_migration_operation(
        self,
        context: Any,
        instance: Any,
        dest: Any,
        block_migration: Any,
        migrate_data: Any,
        guest: Any,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        migrating = migration.MigratingGuest(guest, functools.partial(self._destination_xml, instance))
        return super()._live_migration_operation(
            context, instance, dest, block_migration, migrate_data, migrating, *args, **kwargs
        )

    def _destination_xml(self, instance: Any, guest: Any, rewritten: str) -> str:
        """Return what arrives. A fault leaves Nova's XML, since an exception would put a running guest into ERROR.

        Where the two differ in what the guest sees, QEMU refuses to migrate and the guest stays.
        """
        try:
            running = guest.get_xml_desc(dump_migratable=True)
            if migration.has_request(running) or guest_request.specs(instance):
                return migration.destination_xml(running, rewritten)
        except Exception as error:
            error_policy.judge(instance, error, forgiving=True)
        return rewritten

    # ---- the host ----

    def update_provider_tree(self, provider_tree: Any, nodename: str, *args: Any, **kwargs: Any) -> None:
        """Report as Nova does, and the traits that the host's validation has earned."""
        super().update_provider_tree(provider_tree, nodename, *args, **kwargs)
        try:
            self._host_traits.update_provider_tree(provider_tree, nodename)
        except Exception:
            LOG.exception("Traits of %s stay as they are", nodename)

    def get_available_resource(self, nodename: str, *args: Any, **kwargs: Any) -> Any:
        """Report as Nova does, and the score of the host's validation for the weigher."""
        resources = super().get_available_resource(nodename, *args, **kwargs)
        try:
            stats = self._host_traits.stats(nodename)
            if stats:
                resources["stats"] = {**resources.get("stats", {}), **stats}
        except Exception:
            LOG.exception("No score of %s is reported", nodename)
        return resources

    def _can_map(self) -> bool:
        connection = self._host.get_connection()
        return storage.can_map(connection.getLibVersion(), connection.getVersion())

    def _housekeeping(self, nodes: frozenset[int] | None, request: request_module.Request) -> int | None:
        """Return how many CPUs of ``nodes`` (None: of all) may serve the guest's queues, None when not known."""
        if request.vif_queues != request_module.AUTO:
            return None
        return placement.housekeeping_cpus(self._host, nodes)

    def _log(self, instance: Any, left_out: Iterable[str], warnings: Iterable[str] = ()) -> None:
        """Log what the guest asks for and does not get; what it gets stands in the XML, which Nova logs itself."""
        if left_out:
            LOG.info("left out: %s", "; ".join(left_out), instance=instance)
        for warning in warnings:
            LOG.warning("%s", warning, instance=instance)


def _nodes(domain: Any) -> frozenset[int] | None:
    """Return the host nodes of a guest's memory, None when it may lie anywhere."""
    memory = domain.find("numatune/memory")
    return None if memory is None else frozenset(hardware.parse_cpu_spec(memory.get("nodeset")))
