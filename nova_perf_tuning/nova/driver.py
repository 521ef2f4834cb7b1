# SPDX-License-Identifier: Apache-2.0
"""The compute driver: Nova's libvirt driver with the guest's request put into what it hands to libvirt.

Overrides as few methods as there are sources of domain XML. The request is written into the lxml
elements that Nova's configuration objects render (``format_dom``): of whole domains, and of
devices that are plugged in. The parameters named are the same in Nova 31 to 34, all others are
passed through.
"""

import functools
from collections.abc import Callable, Iterable, Set

import nova.conf
from lxml import etree
from nova import exception
from nova.network import model as network_model
from nova.virt import hardware
from nova.virt.libvirt import config as vconfig
from nova.virt.libvirt import driver, vif
from oslo_log import log as logging

from nova_perf_tuning import errors
from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.guest import (
    network,
    parsing,
    pci_topology,
    queue_total,
    storage,
    transform,
)
from nova_perf_tuning.guest.domain import LeftOut
from nova_perf_tuning.nova import (
    ConfigObject,
    Flavor,
    Guest,
    Host,
    Instance,
    error_policy,
    guest_request,
    migration,
    traits,
)
from nova_perf_tuning.specs import crosscheck
from nova_perf_tuning.specs.request import AUTO, Request

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
options.register_opts(CONF)

#: Writes a guest's request into an element of it; returns what was left out and why.
Write = Callable[[etree._Element, Instance, Request], Iterable[LeftOut]]


class PluggedVIF(network_model.VIF):
    """An interface on its way from ``attach_interface`` to ``get_config``, which Nova calls for others as well."""


class PerfVIFDriver(vif.LibvirtGenericVIFDriver):
    """Nova's VIF driver with the guest's request in what it renders of an interface that is plugged in.

    The object that Nova gets back stays its own class, since detach looks running interfaces up by
    class.

    :param tune: makes a configuration object render with its guest's request.
    """

    def __init__(self, host: Host, tune: Callable[[Instance, ConfigObject], None]) -> None:
        super().__init__(host)
        self._tune = tune

    def get_config(
        self,
        instance: Instance,
        vif: network_model.VIF,
        image_meta: object,
        flavor: Flavor,
        virt_type: str,
        *args: object,
        **kwargs: object,
    ) -> ConfigObject:
        """Return Nova's config object; of an interface that is plugged in, with ``format_dom`` of it replaced."""
        conf = super().get_config(instance, vif, image_meta, flavor, virt_type, *args, **kwargs)
        plugged = isinstance(vif, PluggedVIF)
        if not (plugged or virt_type == "qemu") or not error_policy.asks(instance):
            return conf
        virtio = isinstance(conf, vconfig.LibvirtConfigGuestInterface) and conf.model == "virtio"
        if virtio and virt_type == "qemu" and conf.vhost_queues is None:
            # Nova makes the tap device for several queues whatever the type, but asks libvirt for
            # them with kvm only; such a device cannot be opened with one, and the guest would not
            # start.
            conf.vhost_queues = self._get_virtio_mq_settings(image_meta, flavor)[1]
        if plugged:
            self._tune(instance, conf)
        return conf


class PerfTuningLibvirtDriver(driver.LibvirtDriver):
    """``[DEFAULT] compute_driver = perf_tuning.PerfTuningLibvirtDriver``."""

    def __init__(self, virtapi: object, *args: object, **kwargs: object) -> None:
        super().__init__(virtapi, *args, **kwargs)
        self.vif_driver = PerfVIFDriver(
            self._host, functools.partial(self._tune, self._write_interface)
        )

    @functools.cached_property
    def _host_traits(self) -> traits.HostTraits:
        return traits.HostTraits(CONF)

    def init_host(self, host: str, *args: object, **kwargs: object) -> None:
        """Start as Nova does, then say in the log which options cannot be used."""
        super().init_host(host, *args, **kwargs)
        try:
            for mistake in options.mistakes(CONF).values():
                LOG.error("%s", mistake)
        except Exception:
            LOG.exception("The options were not looked at, nothing else")
        LOG.info(
            "Guests are tuned by their perf: extra specs, on_error=%s", error_policy.on_error()
        )

    # ---- the one way in: what a configuration object renders ----

    def _tune(self, write: Write, instance: Instance, conf: ConfigObject) -> None:
        """Let ``conf`` render with the guest's request; Nova's ``to_xml`` prints, and logs, what it renders."""
        conf.format_dom = functools.partial(self._tuned, write, instance, conf.format_dom)

    def _tuned(
        self, write: Write, instance: Instance, render: Callable[[], etree._Element]
    ) -> etree._Element:
        element = render()
        try:
            request, warnings = guest_request.request(instance)
            left_out = [part.text for part in write(element, instance, request)]
            if left_out:  # what it gets stands in the XML
                LOG.info("left out: %s", "; ".join(left_out), instance=instance)
            for warning in warnings:
                LOG.warning("%s", crosscheck.message(warning), instance=instance)
        except Exception as error:
            error_policy.judge(instance, error)
            element = render()
            try:
                if element.tag == "domain":
                    transform.mark_untuned(element, error_policy.cause(error))
            except Exception:
                LOG.exception("The guest is not marked as untuned", instance=instance)
        return element

    # ---- whole domains: boot, rebuild, hard reboot, resize, rescue, unshelve, evacuate ----

    def _get_guest_config(
        self, instance: Instance, *args: object, **kwargs: object
    ) -> ConfigObject:
        conf = super()._get_guest_config(instance, *args, **kwargs)
        if error_policy.asks(instance):
            self._tune(self._write_domain, instance, conf)
        return conf

    def _write_domain(
        self, domain: etree._Element, instance: Instance, request: Request
    ) -> Iterable[LeftOut]:
        memory = next(parsing.grandchildren(domain, "numatune", "memory"), None)
        nodes = None
        if memory is not None:
            nodes = frozenset(hardware.parse_cpu_spec(memory.get("nodeset")))
        if request.emulator_placement == "numa" and nodes is not None:
            cpus = hardware.format_cpu_spec(self._emulator_cpus(nodes, instance))
            # From Nova 33 on the I/O thread is pinned as the emulator is.
            for pin in parsing.grandchildren(domain, "cputune", "emulatorpin", "iothreadpin"):
                if cpus:
                    pin.set("cpuset", cpus)
        connection = self._host.get_connection()
        spread: frozenset[str] = frozenset()
        if request.iothreads:
            spread = storage.spreadable(connection.getLibVersion(), connection.getVersion())
        device_nodes: dict[str, int] = {}
        if request.pci_topology == "numa":
            device_nodes = self._device_nodes(pci_topology.addresses(domain))
        housekeeping = self._housekeeping(nodes, request)
        left_out = transform.write(domain, request, housekeeping, spread, device_nodes)
        queues = queue_total.of_domain(domain)
        if queues.is_large:
            LOG.warning("%s", queues.text, instance=instance)
        return left_out

    def _device_nodes(self, addresses: Iterable[str]) -> dict[str, int]:
        """Return PCI address -> NUMA node of the devices of the host whose node libvirt knows."""
        nodes: dict[str, int] = {}
        for address in addresses:
            name = "pci_" + address.replace(":", "_").replace(".", "_")
            try:
                xml = self._host.device_lookup_by_name(name).XMLDesc(0)
            except driver.libvirt.libvirtError:
                continue
            node = parsing.parse_xml(xml).find("capability/numa")
            if node is not None:
                nodes[address] = parsing.number(
                    node.get("node", ""), 0, 1 << 16, f"node of {name}"
                )
        return nodes

    def _emulator_cpus(self, nodes: frozenset[int], instance: Instance = None) -> frozenset[int]:
        """Return the CPUs of an emulator whose guest asks for its own nodes; none where there are none."""
        cpus = self._shared_cpus(nodes)
        if not cpus:
            lack = "no CPU of cpu_shared_set is there"
            if cpus is None:
                lack = "[compute] cpu_shared_set is not set"
            what = f"perf:emulator_placement=numa on node(s) {sorted(nodes)} is left out: {lack}"
            LOG.warning("%s", what, instance=instance)
        return cpus or frozenset()

    def _housekeeping(self, nodes: frozenset[int] | None, request: Request) -> int | None:
        """Return how many CPUs of ``nodes`` (None: of all) may serve the guest's queues, None when not known.

        These are the shared ones, or where there are none those that are not dedicated.
        """
        if request.vif_queues != AUTO:
            return None
        shared, dedicated = self._shared_cpus(nodes), hardware.get_cpu_dedicated_set()
        if shared is None and dedicated is not None:
            shared = self._online(self._host.get_online_cpus() - dedicated, nodes)
        if shared is None:
            return None
        return len(shared)

    def _shared_cpus(self, nodes: frozenset[int] | None) -> frozenset[int] | None:
        """Return the online CPUs of ``[compute] cpu_shared_set``, those of ``nodes`` only if given.

        None when the option is not set. Without it Nova has no place for emulator threads but the
        guest's own CPUs, and what is left over beside ``cpu_dedicated_set`` may belong to others
        (a DPDK switch).
        """
        text = CONF.compute.cpu_shared_set
        return self._online(hardware.parse_cpu_spec(text), nodes) if text else None

    def _online(self, cpus: Set[int], nodes: frozenset[int] | None) -> frozenset[int]:
        if nodes is not None:
            cells = self._host.get_capabilities().host.topology.cells
            cpus = cpus & {cpu.id for cell in cells if cell.id in nodes for cpu in cell.cpus}
        return frozenset(cpus & self._host.get_online_cpus())

    # ---- refused while the guest still runs ----

    def _hard_reboot(
        self, context: object, instance: Instance, *args: object, **kwargs: object
    ) -> None:
        """Reboot as Nova does, unless its flavor asks for something wrong: Nova takes the guest down first.

        :raises TuningFailed: it is; Nova leaves a guest that runs alone and keeps the reason as
            its fault.
        """
        failed = self._mistake(instance, None)
        if failed is not None:
            raise failed
        super()._hard_reboot(context, instance, *args, **kwargs)

    def migrate_disk_and_power_off(
        self,
        context: object,
        instance: Instance,
        dest: str,
        flavor: Flavor,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Power off and copy as Nova does, unless what the new flavor asks for is wrong.

        Later, on the destination, there is no way back to the old flavor.

        :raises InstanceFaultRollback: it is; Nova puts the instance back to what it was and tells
            the reason.
        """
        failed = self._mistake(instance, flavor)
        if failed is not None:
            raise exception.InstanceFaultRollback(failed)
        return super().migrate_disk_and_power_off(context, instance, dest, flavor, *args, **kwargs)

    def _mistake(self, instance: Instance, flavor: Flavor) -> error_policy.TuningFailed | None:
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
        self,
        context: object,
        instance: Instance,
        image_meta: object,
        vif: network_model.VIF,
        *args: object,
        **kwargs: object,
    ) -> None:
        """Attach as Nova does; when it cannot be tuned and ``on_error`` is ``fail``, leave no device behind."""
        try:
            super().attach_interface(
                context, instance, image_meta, PluggedVIF(**vif), *args, **kwargs
            )
        except error_policy.TuningFailed:
            try:
                self.vif_driver.unplug(instance, vif)
            except Exception:  # must not take the place of the reason
                LOG.exception(
                    "A device of the refused interface is left on the host", instance=instance
                )
            raise

    def _write_interface(
        self, interface: etree._Element, instance: Instance, request: Request
    ) -> Iterable[LeftOut]:
        topology = instance.numa_topology
        nodes = frozenset(cell.id for cell in topology.cells) if topology else None
        kvm = CONF.libvirt.virt_type == "kvm"
        left_out: list[LeftOut] = []
        addresses: list[str] = []
        if pci_topology.is_passed_through(interface):
            addresses = [pci_topology.host_address(interface)]
        else:
            housekeeping = self._housekeeping(nodes, request)
            left_out += network.write(interface, request, instance.flavor.vcpus, kvm, housekeeping)
        if request.pci_topology == "numa":
            running = self._host.get_guest(instance).get_xml_desc()
            device_nodes = self._device_nodes(addresses)
            left_out += pci_topology.write_plugged(interface, running, device_nodes)
        return left_out

    def _check_discard_for_attach_volume(
        self, conf: ConfigObject, instance: Instance, *args: object, **kwargs: object
    ) -> None:
        """Check as Nova does: the only call with the guest and the object that is then rendered and plugged in."""
        super()._check_discard_for_attach_volume(conf, instance, *args, **kwargs)
        if error_policy.asks(instance):
            self._tune(self._write_disk, instance, conf)

    def _write_disk(
        self, disk: etree._Element, instance: Instance, request: Request
    ) -> Iterable[LeftOut]:
        placed = request.pci_topology == "numa"
        if not (request.iothreads or request.disk_queues or placed):
            return ()
        running = self._host.get_guest(instance).get_xml_desc()
        left_out: list[LeftOut] = []
        if request.iothreads or request.disk_queues:
            left_out += storage.write_plugged(disk, running, request)
        if placed:
            left_out += pci_topology.write_plugged(disk, running, {})
        return left_out

    # ---- live migration ----

    def _get_live_migrate_numa_info(
        self,
        instance_numa_topology: object,
        flavor: Flavor,
        image_meta: object,
        *args: object,
        **kwargs: object,
    ) -> object:
        """Work out the pins on this host, the destination, as :meth:`_write_domain` does at boot.

        A fault leaves Nova's own pins: the claim has been made and nothing would take it back.
        """
        info = super()._get_live_migrate_numa_info(
            instance_numa_topology, flavor, image_meta, *args, **kwargs
        )
        try:
            if (
                "emulator_pins" in info
                and guest_request.of_flavor(flavor, {})[0].emulator_placement == "numa"
            ):
                nodes = frozenset(node for nodes in info.cell_pins.values() for node in nodes)
                info.emulator_pins = set(self._emulator_cpus(nodes)) or info.emulator_pins
        except Exception:
            LOG.exception("The emulator of a guest that arrives is where Nova puts it")
        return info

    def _live_migration_operation(
        self, context: object, instance: Instance, *args: object, **kwargs: object
    ) -> None:
        """Migrate as Nova does; after these come destination, block migration, migrate data and the guest."""
        guest = migration.MigratingGuest(
            args[3], functools.partial(self._destination_xml, instance)
        )
        super()._live_migration_operation(context, instance, *args[:3], guest, *args[4:], **kwargs)

    def _destination_xml(self, instance: Instance, guest: Guest, rewritten: str) -> str:
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

    def update_provider_tree(
        self, provider_tree: object, nodename: str, *args: object, **kwargs: object
    ) -> None:
        """Report as Nova does, and the traits that the host's validation has earned."""
        super().update_provider_tree(provider_tree, nodename, *args, **kwargs)
        try:
            self._host_traits.update_provider_tree(provider_tree, nodename)
        except Exception:
            LOG.exception("Traits of %s stay as they are", nodename)

    def get_available_resource(self, nodename: str, *args: object, **kwargs: object) -> object:
        """Report as Nova does, and the score of the host's validation for the weigher."""
        resources = super().get_available_resource(nodename, *args, **kwargs)
        try:
            stats = self._host_traits.stats(nodename)
            if stats:
                resources["stats"] = {**resources.get("stats", {}), **stats}
        except Exception:
            LOG.exception("No score of %s is reported", nodename)
        return resources
