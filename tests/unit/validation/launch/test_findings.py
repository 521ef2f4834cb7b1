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
        launcher = libvirt.LibvirtLauncher()
        launcher._accelerator = types.SimpleNamespace(name="kvm")
        arm = libvirt._Arm(base.Arm("tuned", asked), guests, (), truths)
        self.assertEqual(
            [
                {
                    "code": "queues",
                    "text": "client: eth0: 1 of 2 queues are enabled (ethtool -L in the guest)",
                }
            ],
            launcher._findings(arm),
        )
