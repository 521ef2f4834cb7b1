# SPDX-License-Identifier: Apache-2.0
"""Transformed domains before the judges that count: libvirt's QEMU driver, and QEMU itself under TCG.

What a request means for a guest's tap on the host is shown here too, with the commands that an operator runs.
"""

import json
import os

from nova_perf_tuning.guest import transform
from nova_perf_tuning.specs import parsing
from tests.support import corpus, embedded_libvirt

#: What is asked of every domain: each spec that changes XML.
SPECS = {
    "perf:vif_queues": "2",
    "perf:vif_rx_queue_size": "1024",
    "perf:vif_tx_queue_size": "1024",
    "perf:vif_host_offload.tso4": "off",
    "perf:vif_guest_offload.ufo": "off",
    "perf:iothreads": "2",
    "perf:disk_queues": "2",
    "perf:free_page_reporting": "on",
    "perf:vhost_placement": "spread",
}
GUEST = """<domain type="qemu">
  <name>perf-functional</name>
  <memory>65536</memory>
  <vcpu>2</vcpu>
  <os><type machine="q35">hvm</type></os>
  <features><acpi/></features>
  <devices>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="{directory}/a.img"/>
      <target dev="vda" bus="virtio"/>
    </disk>
    <disk type="file" device="disk">
      <driver name="qemu" type="raw"/>
      <source file="{directory}/b.img"/>
      <target dev="sda" bus="scsi"/>
    </disk>
    <controller type="scsi" index="0" model="virtio-scsi"/>
    <interface type="ethernet">
      <model type="virtio"/>
      <target dev="{tap}"/>
    </interface>
    <memballoon model="virtio"/>
  </devices>
</domain>
"""


class LibvirtTest(embedded_libvirt.EmbeddedCase):
    def test_every_kind_of_domain_can_be_defined(self):
        request = parsing.parse(SPECS)
        paths = []
        for name in corpus.names():
            # The machine of the test may have no KVM; the QEMU driver checks devices alike.
            xml = transform.transform(corpus.text(name), request).xml.replace(
                'type="kvm"', 'type="qemu"', 1
            )
            paths.append(
                self.write(
                    name,
                    xml.replace("host-passthrough", "maximum").replace(' mode="host-model"', ""),
                )
            )
        out = self.virsh(*(f"define --validate {path}" for path in paths), "list --all --name")
        self.assertEqual(
            len(paths), sum(line.startswith("instance-") for line in out.splitlines()), out
        )

    def test_qemu_runs_with_what_was_asked(self):
        tap = f"perf{os.getpid()}"[:15]
        for name in ("a.img", "b.img"):
            with open(self.directory / name, "wb") as file:
                file.truncate(1 << 20)
        result = transform.transform(
            GUEST.format(directory=self.directory, tap=tap), parsing.parse(SPECS)
        )
        path = self.write("guest.xml", result.xml)
        names = ("virtio-disk0", "scsi0", "net0", "balloon0")
        disk, scsi, nic, balloon = (f"/machine/peripheral/{name}" for name in names)
        expected = {
            (disk, "num-queues"): 2,
            (disk, "iothread"): "/objects/iothread1",
            (scsi, "num_queues"): 2,
            (scsi, "iothread"): "/objects/iothread2",
            (nic, "rx_queue_size"): 1024,
            (nic, "tx_queue_size"): 256,
            (nic, "mq"): True,
            (nic, "host_tso4"): False,
            (nic, "guest_ufo"): False,
            (nic, "guest_csum"): True,
            (balloon, "free-page-reporting"): True,
            (balloon, "deflate-on-oom"): True,
        }
        asked = [{"path": device, "property": name} for device, name in expected]
        questions = [{"execute": "query-iothreads"}]
        questions += [{"execute": "qom-get", "arguments": arguments} for arguments in asked]
        out = self.virsh(
            f"define --validate {path}",
            "start --paused perf-functional",
            *(
                f"qemu-monitor-command perf-functional '{json.dumps(question)}'"
                for question in questions
            ),
            "dumpxml perf-functional",
            "destroy perf-functional",
            "undefine perf-functional",
        )
        answers = [json.loads(line)["return"] for line in out.splitlines() if line.startswith("{")]
        self.assertEqual(["iothread1", "iothread2"], sorted(thread["id"] for thread in answers[0]))
        self.assertEqual(expected, dict(zip(expected, answers[1:], strict=True)))
        self.assertIn('<perf:spec name="perf:vif_queues">2</perf:spec>', out)
        self.assertFalse(os.path.exists(f"/sys/class/net/{tap}"))
