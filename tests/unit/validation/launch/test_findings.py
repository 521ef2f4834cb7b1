"""What the launcher makes of what its guests say."""

import types

import testtools

from nova_perf_tuning.guest import probe, transform
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, libvirt
from tests.unit.guest import corpus, test_probe


class FindingsTest(testtools.TestCase):
    def test_auto_is_compared_with_the_domain_of_each_guest(self):
        asked = request.Request(vif_queues="auto")
        xml = transform.transform(corpus.text("virtio-blk.xml").replace(">4</vcpu>", ">2</vcpu>"), asked).xml
        sound = test_probe.ETHTOOL.replace("Combined:\t1", "Combined:\t2")
        truths = tuple(probe.parse(f"== signature\nKVMKVMKVM\n{text}") for text in (test_probe.ETHTOOL, sound))
        guests = (types.SimpleNamespace(xml=xml),) * 2
        arm = libvirt.BootedArm(base.Arm("tuned", asked), guests, (), truths)
        [finding] = libvirt.findings(arm, "kvm", 2)
        self.assertEqual("queues", finding["code"])
        self.assertTrue(finding["text"].startswith("client: eth0: 1 of 2 queues"), finding)
