# SPDX-License-Identifier: Apache-2.0
"""The only way in: Nova imports compute drivers from below ``nova.virt`` and nowhere else."""

from nova_perf_tuning.nova.driver import PerfTuningLibvirtDriver

__all__ = ["PerfTuningLibvirtDriver"]
