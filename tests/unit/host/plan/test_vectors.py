# SPDX-License-Identifier: Apache-2.0
"""Which interrupt serves which queue: names as the drivers write them, and what the kernel says of NAPIs."""

from nova_perf_tuning.host.model import host_model
from nova_perf_tuning.host.model.notes import Note, NoteCode
from nova_perf_tuning.host.plan import planner, vectors
from nova_perf_tuning.host.plan.layout import CpuSets
from tests.support import hosts, testcase

_PCI = "0000:82:00.0"
_PEER = "0000:c2:00.0"
#: Driver; transmit queues; queue -> names; names of others; for each transmit queue what serves it.
_DRIVERS = (
    ("ice", 2, {0: ["ice-eth0-TxRx-0"], 1: ["ice-eth0-TxRx-1"]},
     [f"ice-{_PCI}:misc", f"ice-{_PCI}:ctrl-TxRx-0", f"irdma-{_PCI}-AEQ", f"irdma-{_PCI}-CEQ-1"], [0, 1]),
    ("i40e", 1, {0: ["i40e-eth0-TxRx-0"]}, [f"i40e-{_PCI}:misc", f"i40e-{_PCI}:fdir-TxRx-0"], [0]),
    ("ixgbe", 4, {0: ["eth0-TxRx-0"], 1: ["eth0-TxRx-1"]}, ["eth0"], [0, 1, 0, 1]),
    ("igb", 1, {0: ["eth0-rx-0", "eth0-tx-0"]}, ["eth0"], [0]),
    ("igc", 1, {0: ["eth0-TxRx-0"]}, ["eth0"], [0]),
    ("mlx5_core", 4, {0: [f"mlx5_comp0@pci:{_PCI}"], 1: [f"mlx5_comp1@pci:{_PCI}"]},
     [f"mlx5_async0@pci:{_PCI}", f"mlx5_ctrl_comp0@pci:{_PCI}"], [0, 1, 0, 1]),
    ("mlx5_core", 2, {0: ["mlx5_comp0"], 1: ["mlx5_comp1"]}, ["mlx5_pages_eq", "mlx5_cmd_eq"], [0, 1]),
    ("mlx4_core", 2, {3: [f"mlx4-3@{_PCI}"], 4: [f"mlx4-4@{_PCI}"]}, [f"mlx4-async@pci:{_PCI}"], None),
    ("bnxt_en", 2, {0: ["eth0-TxRx-0"], 1: ["eth0-TxRx-1"]}, [f"bnxt_re-nq-0@pci:{_PCI}", "bnxt_re-creq"], [0, 1]),
    ("bnxt_en", 2, {0: ["eth0-rx-0", "eth0-tx-0"], 1: ["eth0-tx-1"]}, [], [0, 1]),
    ("ena", 1, {0: ["eth0-Tx-Rx-0"]}, [f"ena-mgmnt@pci:{_PCI}"], [0]),
    ("gve", 2, {0: [f"gve-ntfy-blk0@pci:{_PCI}", f"gve-ntfy-blk2@pci:{_PCI}"],
                1: [f"gve-ntfy-blk1@pci:{_PCI}", f"gve-ntfy-blk3@pci:{_PCI}"]}, [f"gve-mgmnt@pci:{_PCI}"], [0, 1]),
    ("gvnic", 2, {0: ["eth%d-ntfy-block.0", "eth%d-ntfy-block.2"], 1: ["eth%d-ntfy-block.1", "eth%d-ntfy-block.3"]},
     ["eth%d-mgmnt"], [0, 1]),
    ("intel-eth-pci", 2, {0: ["eth0:rx-0", "eth0:tx-0"], 1: ["eth0:rx-1", "eth0:tx-1"]}, ["eth0:mac", "eth0:lpi"],
     [0, 1]),
    ("of-nobody", 1, {0: ["eth0@TxRx-0"]}, [f"of-nobody@{_PCI}:rx-0"], [0]),
    ("qede", 2, {0: ["eth0-fp-0"], 1: ["eth0-fp-1"]}, ["sp-0-82:00.00", "qedr-0"], [0, 1]),
    ("tg3", 1, {0: ["eth0-tx-0", "eth0-rx-1"], 1: ["eth0-rx-2"]}, [], [0]),
    ("tg3", 2, {0: ["eth0-txrx-1"], 1: ["eth0-txrx-2"]}, ["eth0-0"], [0, 1]),
    ("bnx2x", 2, {0: ["eth0-fp-0"], 1: ["eth0-fp-1"]}, ["eth0"], [0, 1]),
    ("nfp", 2, {0: ["eth0-rxtx-0"], 1: ["eth0-rxtx-1"]}, ["eth0-lsc", "eth0-exn"], [0, 1]),
    ("sfc", 2, {0: ["eth0-0"], 1: ["eth0-1"]}, ["eth0-xdp-0", "eth0-ptp"], [0, 1]),
    ("sfc", 2, {0: [f"{_PCI}-0"], 1: [f"{_PCI}-1"]}, [f"{_PCI}-xdp-0", f"{_PCI}-xdp-1", f"{_PCI}-ptp"], [0, 1]),
    ("sfc", 1, {0: [f"{_PCI}-rx-0", f"{_PCI}-tx-0"]}, [f"{_PEER}-rx-0"], [0]),
    ("al_eth", 1, {0: [f"al-eth-rx-comp-0@pci:{_PCI}", f"al-eth-tx-comp-0@pci:{_PCI}"]},
     [f"al-eth-msix-mgmt@pci:{_PCI}"], [0]),
    ("bna", 2, {0: ["eth0 CQ 0", "eth0 TXQ 0"], 1: ["eth0 CQ 1", "eth0 TXQ 1"]}, ["eth0"], [0, 1]),
    ("cxgb3", 2, {0: ["eth0-0"], 1: ["eth0-1"]}, ["cxgb3"], [0, 1]),
    ("ehea", 2, {0: ["eth0-queue0"], 1: ["eth0-queue1"]}, ["eth0-aff"], [0, 1]),
    ("fm10k", 2, {0: ["eth0-TxRx-0"], 1: ["eth0-TxRx-1"]}, ["fm10k-mbx"], [0, 1]),
    ("fsl_enetc", 2, {0: ["eth0-rxtx0"], 1: ["eth0-rxtx1"]}, ["eth0-misc"], [0, 1]),
    ("iavf", 2, {0: ["iavf-eth0-TxRx-0"], 1: ["iavf-eth0-TxRx-1"]}, [f"iavf-{_PCI}:mbx"], [0, 1]),
    ("idpf", 2, {0: ["idpf-eth0-TxRx-1"], 1: ["idpf-eth0-TxRx-2"]}, ["idpf-Mailbox-0"], [0, 1]),
    ("idpf", 2, {0: ["idpf-eth0-TxRx-0"], 1: ["idpf-eth0-TxRx-1"]}, ["idpf-Mailbox-0"], [0, 1]),
    ("ionic", 2, {0: ["ionic-eth0-L0-rx0"], 1: ["ionic-eth0-L0-rx1"]}, [f"ionic-{_PCI}-L0-admin"], [0, 1]),
    ("ionic", 1, {0: ["ionic-eth0-L0-rx0", "ionic-eth0-L0-tx0"]}, [], [0]),
    ("LiquidIO", 2, {0: ["LiquidIO0-pf0-rxtx-0"], 1: ["LiquidIO0-pf0-rxtx-1"]}, ["LiquidIO0-pf0-aux"], [0, 1]),
    ("myri10ge", 2, {0: ["eth0:slice-0"], 1: ["eth0:slice-1"]}, [], [0, 1]),
    ("netxen_nic", 2, {0: ["eth0[0]"], 1: ["eth0[1]"]}, [], [0, 1]),
    ("octeon_ep", 2, {0: ["eth0-q0"], 1: ["eth0-q1"]}, ["octeon_ep-mbox"], [0, 1]),
    ("qlcnic", 1, {0: ["eth0-rx-0"], 1: ["eth0-tx-0-rx-1"]}, [], None),
    ("rvu_nicpf", 2, {0: ["eth0-rxtx-0"], 1: ["eth0-rxtx-1"]}, ["RVUPF2_0 Mbox", "eth0-qerr0"], [0, 1]),
    ("thunder-nicvf", 2, {0: ["eth0-rxtx-0"], 1: ["eth0-rxtx-1"]}, ["eth0-sq-0", "eth0-rbdr-0", "eth0-qset-err-0"],
     [0, 1]),
    ("txgbe", 2, {0: ["eth0-TxRx-0"], 1: ["eth0-TxRx-1"]}, ["txgbe-misc-irq"], [0, 1]),
    ("fbnic", 2, {0: ["eth0-TxRx-0"], 1: ["eth0-TxRx-1"]}, ["fbnic_fw"], [0, 1]),
    ("enic", 1, {0: ["enp134s0f0n-rx-0", "enp134s0f0n-tx-0"]}, ["enp134s0f0n-err", "enp134s0f0n-notify"], [0]),
    ("hns3", 2, {0: [f"hns3-{_PCI}-TxRx-0"], 1: [f"hns3-{_PCI}-TxRx-2"]}, [f"hclge-misc-{_PCI}"], [0, 1]),
    ("vmxnet3", 2, {0: ["eth0-rxtx-0"], 1: ["eth0-rxtx-1"]}, ["eth0-event-2"], [0, 1]),
    ("vmxnet3", 2, {0: ["eth0-tx-0", "eth0-rx-2"], 1: ["eth0-tx-1", "eth0-rx-3"]}, ["eth0-event-4"], [0, 1]),
    ("virtio_net", 1, {0: ["virtio3-input.0", "virtio3-output.0"]}, ["virtio3-config", "virtio3-control"], [0]),
    ("virtio_net", 2, {0: ["virtio3-virtqueues"]}, ["virtio3-config"], [0, 0]),
    ("vif", 2, {0: ["eth0-q0-tx", "eth0-q0-rx"], 1: ["eth0-q1-tx", "eth0-q1-rx"]}, [], [0, 1]),
    ("ibmvnic", 1, {0: ["ibmvnic-30000003-tx0", "ibmvnic-30000003-rx0"]}, [], [0]),
    ("mana", 2, {0: [f"mana_q0@pci:{_PCI}"], 1: [f"mana_q1@pci:{_PCI}"]}, [f"mana_hwc@pci:{_PCI}"], [0, 1]),
    ("cxgb4", 2, {0: ["eth0-Rx0"], 1: ["eth0-Rx1"]}, [_PCI, f"{_PCI}-FWeventq"], None),
    ("cxgb4", 2, {0: ["eth0 (queue 0)"], 1: ["eth0 (queue 1)"]}, [f"{_PCI}-rdma0"], None),
    ("be2net", 2, {0: ["eth0-q0"], 1: ["eth0-q1"]}, ["ocrdma0"], [0, 1]),
    ("hinic", 1, {0: ["eth0_rxq0", "eth0_txq0"]}, ["hinic_aeq-0"], [0]),
    ("hinic3", 2, {0: ["eth0_qp0"], 1: ["eth0_qp1"]}, ["hinic3_aeq0@pci"], [0, 1]),
    ("mlx4_core", 2, {0: ["eth0-0"], 1: ["eth0-1"]}, [f"mlx4-async@pci:{_PCI}", "mlx4-ib-1-0@PCI"], None),
    ("mlx4_core", 1, {0: [f"mlx4-comp-0@pci:{_PCI}"]}, [f"mlx4-async@pci:{_PCI}"], None),
    ("mlx5_core", 2, {0: ["eth0-0"], 1: ["eth0-1"]}, [f"mlx5_async@pci:{_PCI}", "mlx5_sf_comp0"], [0, 1]),
    ("atlantic", 2, {}, ["eth0", "eth0", "eth0"], None),  # the last one is the link's
    ("atlantic", 1, {0: ["eth0"]}, [], [0]),
    ("of-nobody", 1, {0: ["eth0"]}, [], [0]),
    ("of-nobody", 2, {}, ["nobody0", "nobody1"], None),
    (None, 1, {0: ["virtio3-input.0", "virtio3-output.0"]}, [], [0]),
)  # fmt: skip


def vectors_of(names, device=_PCI):
    return [hosts.irq(24 + at, name, device) for at, name in enumerate(names)]


class NamesTest(testcase.TestCase):
    def test_names_of_the_drivers(self):
        for driver, count, queues, others, sending in _DRIVERS:
            with self.subTest(f"{driver}: {others or queues}"):
                irqs = vectors_of(
                    [*others, *(name for names in queues.values() for name in names)]
                )
                nic = hosts.nic(
                    "eth0", range(24, 24 + len(irqs)), pci=_PCI, queues=count, driver=driver
                )
                receiving = []
                for names in queues.values():
                    receiving += [name for name in names if "-tx" not in name or "-rx" in name]
                nic.rx_queues = len(receiving) or 1
                found = vectors.classify(nic, irqs)
                self.assertEqual(
                    queues,
                    {
                        queue: [irq.name for irq in serving]
                        for queue, serving in found.queues.items()
                    },
                )
                self.assertEqual(others, [irq.name for irq in found.other])
                self.assertEqual(
                    (sending, 0), (found.sending and list(found.sending), found.surplus)
                )

    def plan(self, nic, irqs):
        plan = planner.plan(hosts.facts(hosts.cpus_of([(0, 4), (1, 4)]), [nic], irqs), CpuSets())
        return plan, {(setting.kind, setting.target): setting.value for setting in plan.settings}

    def test_queues_that_cannot_be_paired_keep_their_xps(self):
        """A hole in the numbers is no reason to shift those that follow."""
        irqs = vectors_of(["eth0-TxRx-0", "eth0-TxRx-2"])
        plan, values = self.plan(hosts.nic("eth0", (24, 25), pci=_PCI, queues=3), irqs)
        self.assertEqual({("irq_affinity", "irq:24"), ("irq_affinity", "irq:25")}, set(values))
        self.assertEqual([Note.of(NoteCode.QUEUES_UNPAIRED, nic="eth0", queues=3)], plan.warnings)

    def test_names_that_are_cut_before_the_number(self):
        """bnxt_en up to Linux 6.11 keeps 17 characters of a name: they are queues' vectors all the same."""
        nobody = [f"bnxt_re-nq-0@pci:{_PCI}"]
        for nic_name, numbers in (
            ("enp4s0f0np0", range(4)),
            ("enp129s0f0np0", range(4)),
            ("enp4s0f0n0", (0, 1, 2, 10, 11)),
        ):
            names = [f"{nic_name}-TxRx-{number}"[:17] for number in numbers]
            with self.subTest(names=names):
                irqs = vectors_of([*names, *nobody])
                count = len(names)
                nic = hosts.nic(
                    nic_name, range(24, 24 + len(irqs)), pci=_PCI, queues=count, driver="bnxt_en"
                )
                found = vectors.classify(nic, irqs)
                self.assertEqual(list(range(count)), list(found.queues))
                self.assertEqual(nobody, [irq.name for irq in found.other])
                self.assertIsNone(found.sending)
                plan, values = self.plan(nic, irqs)
                noted = Note.of(NoteCode.QUEUES_UNPAIRED, nic=nic_name, queues=count)
                self.assertEqual([noted], plan.warnings)
                self.assertEqual({"irq_affinity"}, {kind for kind, _target in values})

    def test_names_that_do_not_say_which_queue(self):
        """No number of a queue is made up, and nothing is called another interrupt that may serve one."""
        kinds = (
            ("atlantic", ["eth0"] * 5, "interrupt of eth0 (eth0)"),
            ("of-nobody", ["nobody0"], "interrupt of eth0 (nobody0)"),
            (
                "ice",
                [f"ice-{_PCI}:ctrl-TxRx-0"],
                f"other interrupt of eth0 (ice-{_PCI}:ctrl-TxRx-0)",
            ),
            ("sfc", [f"{_PCI}-xdp-0"], f"XDP interrupt of eth0 ({_PCI}-xdp-0)"),
            ("bnxt_en", ["eth0-TxRx-", "eth0-TxRx-"], "one of them on CPU"),
        )
        for driver, names, expected in kinds:
            irqs = vectors_of(names)
            numbers = [irq.number for irq in irqs]
            nic = hosts.nic("eth0", numbers, pci=_PCI, queues=4, driver=driver)
            plan, _values = self.plan(nic, irqs)
            for setting in plan.settings:
                with self.subTest(driver):
                    self.assertEqual("irq_affinity", setting.kind)
                    self.assertIn(f" {expected}", f" {setting.reason}")
                    self.assertNotRegex(setting.reason, r"queues? \d")
            self.assertEqual(len(names), len(plan.settings))

    def test_a_vector_of_several_queues(self):
        """Intel's own ice driver: all queues of a vector send on its CPU."""
        irqs = vectors_of([f"ice-eth0-TxRx-{first}-{first + 1}" for first in (0, 2, 4)])
        nic = hosts.nic("eth0", (24, 25, 26), pci=_PCI, queues=6, driver="ice")
        found = vectors.classify(nic, irqs)
        self.assertEqual(([0, 2, 4], []), (list(found.queues), list(found.other)))
        self.assertEqual([0, 0, 2, 2, 4, 4], list(found.sending))
        plan, _values = self.plan(nic, irqs)
        reasons = [setting.reason for setting in plan.settings if setting.kind == "irq_affinity"]
        for reason, queues in zip(reasons, ("0-1", "2-3", "4-5"), strict=True):
            self.assertIn("has 6 queues", reason)
            self.assertIn(f"queues {queues} on CPU", reason)

    def test_ports_of_one_function_have_their_own_vectors(self):
        irqs = vectors_of(["eth0 (queue 0)", "eth0d1 (queue 0)", _PCI])
        nics = [
            hosts.nic(name, (24, 25, 26), pci=_PCI, queues=1, driver="cxgb4")
            for name in ("eth0", "eth0d1")
        ]
        facts = hosts.facts(hosts.cpus_of([(0, 4)]), nics, irqs)
        reasons = {
            setting.target: setting.reason.split()[0]
            for setting in planner.plan(facts, CpuSets()).settings
        }
        self.assertEqual({"irq:24": "eth0", "irq:25": "eth0d1", "irq:26": "other"}, reasons)

    def test_more_vectors_than_queues_are_noted(self):
        irqs = vectors_of([f"eth0-TxRx-{queue}" for queue in range(4)])
        nic = hosts.nic("eth0", range(24, 28), pci=_PCI, queues=2)
        self.assertEqual(
            ([0, 1], 2),
            (list(vectors.classify(nic, irqs).queues), vectors.classify(nic, irqs).surplus),
        )
        self.assertEqual(
            [Note.of(NoteCode.SURPLUS_VECTORS, nic="eth0", vectors=2)],
            self.plan(nic, irqs)[0].warnings,
        )

    def test_other_vectors_never_have_the_better_cpu(self):
        irqs = vectors_of([f"ena-mgmnt@pci:{_PCI}", "eth0-Tx-Rx-0"])
        for irq in irqs:
            irq.affinity = "0"
        nic = hosts.nic("eth0", (24, 25), pci=_PCI, queues=1, driver="ena")
        facts = hosts.facts(hosts.cpus_of([(0, 4)]), [nic], irqs, isolated="1-2")
        values = {
            setting.target: setting.value for setting in planner.plan(facts, CpuSets()).settings
        }
        self.assertEqual({"irq:24": "0", "irq:25": "3"}, values)

    def test_one_netdev_on_two_functions(self):
        """mlx5 deals its channels round robin to its functions; each stays on its own node."""
        names = [f"mlx5_comp{number}@pci:{_PCI}" for number in range(3)]
        irqs = [hosts.irq(24 + at, name, _PCI, node=0) for at, name in enumerate(names)]
        irqs += [
            hosts.irq(27 + at, f"mlx5_comp{at}@pci:{_PEER}", _PEER, node=1) for at in range(2)
        ]
        nic = hosts.nic("eth0", range(24, 29), pci=_PCI, queues=5, driver="mlx5_core", mask="00")
        plan, values = self.plan(nic, irqs)
        queues = vectors.classify(nic, irqs).queues
        self.assertEqual(
            {0: 24, 1: 27, 2: 25, 3: 28, 4: 26},
            {key: one[0].number for key, one in queues.items()},
        )
        self.assertEqual(
            ["1", "2", "3", "4", "5"],
            [values["irq_affinity", f"irq:{number}"] for number in range(24, 29)],
        )
        for queue, cpu in ((0, 1), (1, 4), (2, 2), (3, 5), (4, 3)):
            self.assertEqual(1, int(values["xps", f"eth0/tx-{queue}"], 16) >> cpu & 1, queue)
        self.assertEqual([], plan.warnings)
        half = hosts.nic("eth0", range(24, 27), pci=_PCI, queues=5, driver="mlx5_core")
        self.assertIsNone(vectors.classify(half, irqs[:3]).sending)


class NapiTest(testcase.TestCase):
    """What the kernel says goes before names."""

    def test_queues_of_napis(self):
        irqs = vectors_of(["odd-a", "odd-b", "eth0-TxRx-0"])
        nic = hosts.nic("eth0", (24, 25, 26), pci=_PCI, queues=2)
        nic.napis = (
            host_model.Napi(1, 24, (1,), ()),
            host_model.Napi(2, 24, (), (1,)),
            host_model.Napi(3, 25, (0,), (0,)),
        )
        found = vectors.classify(nic, irqs)
        self.assertEqual({0: [irqs[1]], 1: [irqs[0]]}, found.queues)
        self.assertEqual(([irqs[2]], [0, 1]), (found.other, found.sending))

    def test_threads_are_where_their_interrupts_are(self):
        irqs = vectors_of(["eth0-TxRx-0"])
        nic = hosts.nic("eth0", (24,), node=1, pci=_PCI)
        veth = hosts.nic("veth0", (), None, None, None, 1, "veth")
        for device, irq in ((nic, 24), (veth, None)):
            thread = host_model.Thread(70 + (irq or 0), "napi", 1, "0-7", 55, True)
            device.napis = (host_model.Napi(1, irq, (), (), thread),)
        facts = hosts.facts(hosts.cpus_of([(0, 4), (1, 4)]), [nic, veth], irqs)
        plan = planner.plan(facts, CpuSets(dedicated="1-3,6-7"))
        threads = {
            s.target: (s.value, s.rule, s.identity)
            for s in plan.settings
            if s.kind == "thread_affinity"
        }
        self.assertEqual(
            {"tid:94": ("4", "napi-local", "94:55"), "tid:70": ("0,4-5", "napi-local", "70:55")},
            threads,
        )
        self.assertEqual(("0,4-5", ""), (plan.sets["napi"], plan.sets["overlap"]))
        everything = planner.plan(facts, CpuSets(dedicated="0-7"))
        self.assertEqual(
            ("0-7", "0-7"), (everything.sets["overlap_napi"], everything.sets["overlap"])
        )
