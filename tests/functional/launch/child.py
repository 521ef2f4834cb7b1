# SPDX-License-Identifier: Apache-2.0
"""Boots a pair and waits: the process that tests interrupt, terminate and kill.

python -m tests.functional.launch.child IMAGE MOMENT: prints the run's id, then "booting" before the first guest,
"booted" after both. MOMENT "host" starts a server on the host instead of guests.
"""

import sys
import time

from nova_perf_tuning import signals
from nova_perf_tuning.specs import request
from nova_perf_tuning.validation.launch import base, libvirt
from tests.support import patience

image, moment = sys.argv[1:]
with (
    signals.guarded(),
    libvirt.LibvirtLauncher(
        accelerator="tcg", image_directory=image, boot_timeout_s=patience.LIMIT_S
    ) as launcher,
):
    launcher.prepare()
    print(launcher.run_id, flush=True)
    with launcher.host_pair().server.serving(["iperf3", "-s"]):
        print("booting", flush=True)
        if moment == "boot":
            launcher.boot(base.Arm("untuned", request.Request()))
            print("booted", flush=True)
        time.sleep(3600)
