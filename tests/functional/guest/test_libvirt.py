# SPDX-License-Identifier: Apache-2.0
"""Transformed domains before the judges that count: libvirt's QEMU driver, and QEMU itself under TCG.

What a request means for a guest's tap on the host is shown here too, with the commands that an operator runs.
libvirt runs embedded in virsh with a directory of its own (qemu:///embed): no daemon, nothing shared.
"""

import json
import os
import pathlib
import shutil
import signal
import tempfile

from nova_perf_tuning.guest import transform
from nova_perf_tuning.specs import parsing
from tests.support import corpus, patience, testcase

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
NAME = "perf-functional"
#: What libvirt shall log: programs it runs, QEMU's start and what QEMU is asked.
LOGGED = "1:util.command 1:qemu.qemu_process 1:qemu.qemu_monitor_json 3:*"
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


class LibvirtTest(testcase.TestCase):
    """One virsh run for each test; every guest is destroyed in it, and again by process id if it is not."""

    def setUp(self):
        super().setUp()
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="nova-perf-libvirt-"))
        self.addCleanup(shutil.rmtree, self.directory)
        self.directory.chmod(0o755)  # QEMU runs as another user
        self.addCleanup(self.kill_leftovers)
        # QEMU's output would go to a virtlogd, which runs only where libvirtd does; and a /dev of QEMU's own does
        # not go together with a mount over /dev/kvm. A file's
        # owner is remembered beside the time of boot, which libvirt works out anew in each process that it forks:
        # without a utmp that is whole seconds less the uptime's fractions (virHostGetBootTimeProcfs), so that two
        # answers differ by one, and libvirt warns of an "Invalid XATTR timestamp": in 3 runs of 8.
        (self.directory / "root/etc").mkdir(parents=True)
        self.write(
            "root/etc/qemu.conf", 'stdio_handler = "file"\nnamespaces = []\nremember_owner = 0\n'
        )

    def kill_leftovers(self):
        """Kill the guest if it outlived virsh: the process of its pid file, if that still is this very guest."""
        path = self.directory / "root/run/qemu" / f"{NAME}.pid"
        if not path.exists():
            return
        pid = int(path.read_text(encoding="ascii"))
        try:
            mine = (
                str(self.directory).encode() in pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
            )
        except OSError:
            return
        if mine:
            os.kill(pid, signal.SIGKILL)

    def virsh(self, *commands):
        """Run virsh commands one after the other; return stdout, fail with stderr.

        The first thing that libvirt does is to run QEMU twice (with KVM and without) and to ask it for all that
        it can do. That takes 3 s, and 80 s were seen where QEMU was not in the page cache and others had the CPUs.
        Where root may open /dev/kvm and QEMU's user may not (no udev), the answer is never held to be valid and
        the question is asked anew for each device: minutes. So here nobody has KVM.
        """
        argv, options = self.embedded("; ".join(commands))
        result = patience.run(argv, **options)
        self.assertEqual(
            (0, ""), (result.returncode, result.stderr)
        )  # the code is the last command's alone
        return result.stdout

    def embedded(self, *commands):
        """Return how virsh is run, in a mount namespace where its libvirt passes for the host's."""
        no_kvm, state = self.directory / "no-kvm", self.directory / "root/run/qemu"
        no_kvm.touch(mode=0o600)
        state.mkdir(parents=True, exist_ok=True)
        prepare = (
            'if [ -e /dev/kvm ]; then mount --bind "$0" /dev/kvm; fi; '
            'mount -t tmpfs tmpfs /run; mkdir -p /run/libvirt/qemu; mount --bind "$1" /run/libvirt/qemu; '
            'shift; exec "$@"'
        )
        uri = f"qemu:///embed?root={self.directory}/root"
        argv = [
            "unshare",
            "--mount",
            "sh",
            "-ec",
            prepare,
            no_kvm,
            state,
            "virsh",
            "-q",
            "-c",
            uri,
            *commands,
        ]
        outputs = f"1:file:{self.directory}/libvirt.log"
        return argv, {
            "env": {**os.environ, "LIBVIRT_LOG_FILTERS": LOGGED, "LIBVIRT_LOG_OUTPUTS": outputs}
        }

    def write(self, name, xml):
        path = self.directory / name
        path.write_text(xml, encoding="utf-8")
        return path

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
