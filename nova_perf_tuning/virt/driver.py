"""The compute driver: Nova's libvirt driver with the guest's request put into what it hands to libvirt.

Overrides as few methods as there are sources of domain XML. All of them call Nova's own first and change its
result, but two that refuse beforehand what is wrong. The parameters named are the same in Nova 31 to 34, all
others are passed through.
"""

from __future__ import annotations

import dataclasses
import functools
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import nova.conf
from lxml import etree
from nova import exception
from nova.virt.libvirt import driver
from oslo_log import log as logging

from nova_perf_tuning import errors
from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.guest import features as features_module
from nova_perf_tuning.guest import network, transform
from nova_perf_tuning.specs import request as request_module
from nova_perf_tuning.virt import asked, faults, hotplug, migration, objects, placement, selfcheck, traits
from nova_perf_tuning.virt import vif as vif_module

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
        """Start as Nova does, then say in the log whether the installation is sound."""
        super().init_host(host, *args, **kwargs)
        try:
            for problem in selfcheck.problems():
                LOG.warning("%s", problem)
            for mistake in options.mistakes(CONF):
                LOG.error("%s", mistake)
        except Exception:
            LOG.exception("The self-check has failed, nothing else")
        LOG.info("Guests are tuned by their perf: extra specs, on_error=%s", faults.on_error())

    # ---- whole domains: boot, rebuild, hard reboot, resize, rescue, unshelve, evacuate ----

    def _get_guest_xml(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> str:
        with faults.Work(instance) as job:
            xml: str = super()._get_guest_xml(context, instance, *args, **kwargs)
            if not job.seen and job.fault is None:
                with faults.guarded(job):
                    raise RuntimeError("Nova has written the guest's XML in a way that this driver does not know")
        if job.fault is not None and faults.asks(instance):
            with faults.guarded(dataclasses.replace(job, forgiving=True)):
                return faults.mark_untuned(xml, faults.cause(job.fault))
        return xml

    def _get_guest_config(self, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Return Nova's config object; if anything is asked, with ``to_xml`` of this one object replaced.

        So what Nova logs is tuned as well. The object does not hold itself through what it holds of us: it would
        be left, with all that it consists of, to the garbage collector.
        """
        conf = super()._get_guest_config(instance, *args, **kwargs)
        job = faults.current()
        if job is not None and job.whole_domain and job.fault is None:
            try:
                if self._asked(job)[0] is not request_module.NOTHING:
                    conf.to_xml = functools.partial(self._write_domain, job, weakref.ref(conf))
                else:
                    job.seen = True
            except Exception as error:
                faults.judge(job, error)
        return conf

    def _write_domain(self, job: faults.Work, conf_of: Callable[[], Any], *args: Any, **kwargs: Any) -> str:
        conf = conf_of()
        xml: str = type(conf).to_xml(conf, *args, **kwargs)
        if job.fault is None:
            try:
                return self._tuned_domain(job, conf, xml)
            except Exception as error:
                faults.judge(job, error)
        return xml

    def _tuned_domain(self, job: faults.Work, conf: Any, xml: str) -> str:
        request, warnings = self._asked(job)
        nodes = None if conf.numatune is None else conf.numatune.memory.nodeset
        housekeeping_cpus, features = self._housekeeping(nodes, request, configured=True), self._features()
        plan = objects.plan(conf, request, housekeeping_cpus, features)
        tuned = None if plan is None else objects.finish(plan, conf, xml)
        if tuned is None:
            tuned = transform.transform_unchecked(
                xml, request, housekeeping_cpus=housekeeping_cpus, features=features
            )
        job.seen = True
        if tuned.notes or warnings:
            self._log(job.instance, tuned.notes, warnings)
        return tuned.xml

    def _asked(self, job: faults.Work) -> tuple[request_module.Request, tuple[str, ...]]:
        if job.request is None:
            job.request = asked.request(job.instance, _profile_dir)
        return job.request

    def _get_guest_numa_config(
        self, instance_numa_topology: Any, flavor: Any, image_meta: Any, *args: Any, **kwargs: Any
    ) -> Any:
        config = super()._get_guest_numa_config(instance_numa_topology, flavor, image_meta, *args, **kwargs)
        job = faults.current()
        if job is not None and config.cputune is not None:
            try:
                self._place_emulator(job, config)
            except Exception as error:
                faults.judge(job, error)
        return config

    def _place_emulator(self, job: faults.Work, config: Any) -> None:
        """Move the emulator to the shared CPUs of the guest's nodes; from Nova 33 on the I/O thread as well."""
        request, _ = self._asked(job)
        if request.emulator_placement != "numa":
            return
        nodes = config.numatune.memory.nodeset
        # Nova has just refused a cpu_shared_set that isn't all online, but with the legacy option in force.
        cpus = placement.shared_cpus(self._host, nodes, known_online=not CONF.vcpu_pin_set)
        if not cpus:
            lack = "[compute] cpu_shared_set is not set" if cpus is None else "no CPU of cpu_shared_set is there"
            warning = f"perf:emulator_placement=numa on node(s) {sorted(nodes)} is left out: {lack}"
            self._log(job.instance, (), [warning])
            return
        pins = config.cputune.emulatorpin.cpuset
        # The set is Nova's own, made for this guest, and from Nova 33 on the I/O thread's pin is the same one.
        pins.clear()
        pins.update(cpus)

    # ---- refused while the guest still runs ----

    def _hard_reboot(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Reboot as Nova does, unless what the guest asks for is wrong: Nova takes it down before it asks us.

        :raises TuningFailed: it is; Nova leaves a guest that runs alone and keeps the reason as its fault.
        """
        try:
            error = self._mistake(instance, None)
        except Exception:  # judged where the guest's XML is made; it may have passed until then
            error = None
        if error is not None:
            raise faults.refuse(instance, error)
        return super()._hard_reboot(context, instance, *args, **kwargs)

    def migrate_disk_and_power_off(
        self, context: Any, instance: Any, dest: Any, flavor: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Power off and copy as Nova does, unless what the new flavor asks for is wrong.

        Later, on the destination, there is no way back to the old flavor.

        :raises InstanceFaultRollback: it is; Nova puts the instance back to what it was and tells the reason.
        """
        try:
            error = self._mistake(instance, flavor)
        except Exception:  # as above
            error = None
        if error is not None:
            raise exception.InstanceFaultRollback(faults.refuse(instance, error, flavor))
        return super().migrate_disk_and_power_off(context, instance, dest, flavor, *args, **kwargs)

    def _mistake(self, instance: Any, flavor: Any) -> errors.PerfTuningError | None:
        """Return what is wrong with a request, where ``on_error`` refuses it; None for nothing."""
        try:
            asked.request(instance, _profile_dir, flavor)
        except errors.PerfTuningError as error:
            return error if faults.on_error() == "fail" else None
        return None

    # ---- single devices: hot plug ----

    def _tuned_interface(self, instance: Any, xml: str) -> str:
        request, _ = asked.request(instance, _profile_dir)
        if not request:
            return xml
        topology = instance.numa_topology
        nodes = {cell.id for cell in topology.cells} if topology else None
        guest = network.Guest(
            instance.flavor.vcpus,
            CONF.libvirt.virt_type == "kvm",
            self._housekeeping(nodes, request),
            self._features(),
        )
        tuned, notes = hotplug.interface(xml, request, guest)
        self._log(instance, notes)
        return tuned

    def attach_interface(
        self, context: Any, instance: Any, image_meta: Any, vif: Any, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach as Nova does; when it cannot be tuned and ``on_error`` is ``fail``, leave no device behind."""
        with faults.Work(instance, whole_domain=False):
            try:
                return super().attach_interface(context, instance, image_meta, vif, *args, **kwargs)
            except faults.TuningFailed:
                try:
                    self.vif_driver.unplug(instance, vif)
                except Exception:  # must not take the place of the reason
                    LOG.exception("A device of the refused interface is left on the host", instance=instance)
                raise

    def attach_volume(
        self, context: Any, connection_info: Any, instance: Any, mountpoint: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Attach as Nova does; ``_get_volume_config``, which isn't told, knows the guest meanwhile."""
        with faults.Work(instance, whole_domain=False):
            return super().attach_volume(context, connection_info, instance, mountpoint, *args, **kwargs)

    def _get_volume_config(self, connection_info: Any, disk_info: Any, *args: Any, **kwargs: Any) -> Any:
        conf = super()._get_volume_config(connection_info, disk_info, *args, **kwargs)
        job = faults.current()
        if job is not None and not job.whole_domain:
            render = conf.format_dom
            conf.format_dom = lambda: self._render_disk(job, render())
        return conf

    def _render_disk(self, job: faults.Work, element: Any) -> Any:
        with faults.guarded(job):
            request, _ = self._asked(job)
            if request.iothreads or request.disk_queues:
                xml = etree.tostring(element, encoding="unicode")
                domain = self._host.get_guest(job.instance).get_xml_desc()
                tuned, notes = hotplug.disk(xml, domain, request, self._features())
                self._log(job.instance, notes)
                return etree.fromstring(tuned)
        return element

    # ---- live migration ----

    def check_can_live_migrate_source(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Check as Nova does, and that the destination's XML can be made.

        Here a migration can still be refused and the guest just stays. Later, an exception puts a guest that
        runs well into ERROR, from Nova 32 on, with no fault that says why.

        :raises MigrationPreCheckError: it cannot, and ``on_error`` is ``fail``.
        """
        checked = super().check_can_live_migrate_source(context, instance, *args, **kwargs)
        with faults.Work(instance) as job:
            try:
                with faults.guarded(job):
                    running = self._host.get_guest(instance).get_xml_desc(dump_migratable=True)
                    self._destination_xml(instance, running, running)
            except faults.TuningFailed as error:
                raise exception.MigrationPreCheckError(reason=error.format_message()) from error
        return checked

    def post_claim_migrate_data(self, context: Any, instance: Any, *args: Any, **kwargs: Any) -> Any:
        """Work out the pins on the destination, for the instance that ``_get_guest_numa_config`` isn't told.

        A fault leaves Nova's own pins: the claim has been made and nothing would take it back.
        """
        with faults.Work(instance, forgiving=True):
            return super().post_claim_migrate_data(context, instance, *args, **kwargs)

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
        with faults.Work(instance, forgiving=True) as job:

            def finish(read: Callable[[], str], rewritten: str) -> str:
                with faults.guarded(job):
                    return self._destination_xml(instance, read(), rewritten)
                return rewritten

            migrating = migration.MigratingGuest(guest, finish)
            return super()._live_migration_operation(
                context, instance, dest, block_migration, migrate_data, migrating, *args, **kwargs
            )

    def _destination_xml(self, instance: Any, running: str, rewritten: str) -> str:
        if migration.has_request(running) or asked.specs(instance):
            return migration.destination_xml(running, rewritten)
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

    def _features(self) -> features_module.Features:
        connection = self._host.get_connection()
        return features_module.Features(connection.getLibVersion(), connection.getVersion())

    def _housekeeping(
        self, nodes: Iterable[int] | None, request: request_module.Request, *, configured: bool = False
    ) -> int | None:
        """Return how many CPUs may serve the guest's queues.

        :param nodes: those that it is placed on, None for all.
        :param configured: Nova has just made this guest's NUMA configuration, as in :meth:`_place_emulator`.
        """
        if request.vif_queues != request_module.AUTO:
            return None
        known_online = configured and not CONF.vcpu_pin_set
        return placement.housekeeping_cpus(self._host, nodes, known_online=known_online)

    def _log(self, instance: Any, notes: Iterable[str], warnings: Iterable[str] = ()) -> None:
        """Log what the guest asks for and does not get; what it gets stands in the XML, which Nova logs itself."""
        left_out = [note for note in notes if note.startswith(transform.LEFT_OUT)]
        if left_out:
            LOG.info("%s", "; ".join(left_out), instance=instance)
        for warning in warnings:
            LOG.warning("%s", warning, instance=instance)


def _profile_dir() -> str | None:
    folder: str | None = options.value(CONF, "profile_dir")
    return folder
