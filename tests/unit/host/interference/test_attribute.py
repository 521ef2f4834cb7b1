# SPDX-License-Identifier: Apache-2.0
"""By which channel something came, by the names that the kernel gives."""

from nova_perf_tuning.host.interference import attribute
from nova_perf_tuning.host.model.channels import Channel
from tests.support import testcase


class InterruptTest(testcase.TestCase):
    def test_lines_of_interrupts(self):
        for name, about, channel, source in (
            (
                "36",
                "PCI-MSIX-0000:00:02.0 1-edge virtio1-req.0",
                Channel.INTERRUPTS,
                "irq 36 virtio1-req.0",
            ),
            (
                "16",
                "IO-APIC 16-fasteoi ehci_hcd:usb1, nvme0q1",
                Channel.INTERRUPTS,
                "irq 16 ehci_hcd:usb1, nvme0q1",
            ),
            ("44", "ITS-MSI 524288 Edge nvme0q0", Channel.INTERRUPTS, "irq 44 nvme0q0"),
            ("11", "GICv3 27 Level arch_timer", Channel.TICK_AND_TIMERS, "irq 11 arch_timer"),
            ("64", "xen-percpu -virq timer0", Channel.TICK_AND_TIMERS, "irq 64 timer0"),
            ("9", "", Channel.INTERRUPTS, "irq 9"),
            (
                "LOC",
                "Local timer interrupts",
                Channel.TICK_AND_TIMERS,
                "LOC Local timer interrupts",
            ),
            ("TLB", "TLB shootdowns", Channel.PROCESSOR_INTERRUPTS, "TLB shootdowns"),
            (
                "IPI0",
                "Rescheduling interrupts",
                Channel.PROCESSOR_INTERRUPTS,
                "IPI0 Rescheduling interrupts",
            ),
            ("NMI", "Non-maskable interrupts", Channel.WATCHDOGS, "NMI Non-maskable interrupts"),
            ("MCP", "Machine check polls", Channel.MACHINE_CHECKS, "MCP Machine check polls"),
        ):
            with self.subTest(name, about=about):
                self.assertEqual((channel, source), attribute.interrupt(name, about))

    def test_interrupts_for_a_vcpu_are_no_intrusion(self):
        self.assertIsNone(attribute.interrupt("PIN", "Posted-interrupt notification event"))


class ThreadTest(testcase.TestCase):
    def test_threads_of_the_kernel(self):
        for name, channel, source in (
            ("kworker/u8:1-events_unbound", Channel.WORKQUEUES, "kworker/u8 events_unbound"),
            ("kworker/1:1H-kblockd", Channel.WORKQUEUES, "kworker/1H kblockd"),
            ("kworker/3:0", Channel.WORKQUEUES, "kworker/3"),
            ("kworker/R-xfs", Channel.WORKQUEUES, "kworker/R-xfs"),
            ("rcuop/3", Channel.RCU_CALLBACKS, "rcuop/3"),
            ("napi/eth0-8193", Channel.NAPI_THREADS, "napi/eth0-8193"),
            ("vhost-4711", Channel.VHOST_WORKERS, "vhost-4711"),
            ("irq/44-nvme0q1", Channel.INTERRUPTS, "irq/44-nvme0q1"),
            ("khungtaskd", Channel.WATCHDOGS, "khungtaskd"),
            ("cpuhp/3", Channel.MAINTENANCE, "cpuhp/3"),
            ("ksoftirqd/1", Channel.KERNEL_THREADS, "ksoftirqd/1"),
        ):
            with self.subTest(name):
                self.assertEqual(attribute.Role(channel, source), attribute.kernel_thread(name))

    def test_threads_of_programs_and_guests(self):
        for role, channel in (
            (attribute.user_thread("ovs-vswitchd", "revalidator12"), Channel.VSWITCH_THREADS),
            (attribute.user_thread("nova-compute", "nova-compute"), Channel.PROCESSES),
            (attribute.of_guest("vhost", 0, "vm"), Channel.VHOST_WORKERS),
            (attribute.of_guest("worker", None, "vm"), Channel.QEMU_THREADS),
            (attribute.of_guest("emulator", None, "vm"), Channel.QEMU_THREADS),
        ):
            self.assertEqual(channel, role.channel, role.source)

    def test_a_program_may_not_pass_for_a_thread_of_the_kernel(self):
        self.assertEqual(Channel.PROCESSES, attribute.user_thread("vhost-1", "rcuop/1").channel)

    def test_a_vcpu_is_an_intruder_on_a_cpu_of_another_guest_alone(self):
        role = attribute.of_guest("vcpu", 0, "vm")
        guests = {1: frozenset({"vm"}), 2: frozenset({"other"})}
        found = [attribute.on_cpu(role, cpu, guests) for cpu in (1, 2, 3)]
        self.assertEqual([None, Channel.PROCESSES, None], found)
