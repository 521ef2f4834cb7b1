"""The sampler of Nova's diagnostics keeps quiet until the first turn."""

import threading
import time
import types

import testtools

from nova_perf_tuning.cloud import diagnostics


class Answers:
    """Stands for Nova's API: a guest's CPU time, and when it was asked."""

    def __init__(self):
        self.asked = threading.Event()
        self.connection = types.SimpleNamespace(compute=self)

    def get(self, _path, microversion):
        self.asked.set()
        return types.SimpleNamespace(status_code=200, json=lambda: {"cpu_details": [{"time": 1e9 * time.time()}]})


class SamplerTest(testtools.TestCase):
    def sampler(self, begin):
        self.api = Answers()
        sampler = diagnostics.Sampler(self.api, ["guest"], interval_s=0.01, begin=begin)
        self.addCleanup(sampler.close)
        return sampler

    def test_nothing_is_asked_before_the_first_turn(self):
        begun = time.monotonic()
        sampler = self.sampler(time.time() + 600)
        self.assertFalse(self.api.asked.wait(0.3))
        sampler.close()
        self.assertLess(time.monotonic() - begun, 300, "closing waited for the first turn")
