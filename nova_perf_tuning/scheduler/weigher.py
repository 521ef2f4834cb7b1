"""A soft preference in nova-scheduler for hosts that did well in their latest validation.

nova-compute reports the score with its inventory (``compute_node.stats``, which the scheduler holds already),
so this needs no service of its own. Hard requirements are traits, not weights: see
:mod:`nova_perf_tuning.virt.traits`.
"""

from __future__ import annotations

import functools
import math
from typing import Any, Final

import nova.conf
from nova.scheduler import utils, weights
from oslo_config import cfg
from oslo_log import log as logging

from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.specs import vocabulary

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
options.register_opts(CONF)

#: Name in the host's stats; :mod:`nova_perf_tuning.virt.traits` writes it.
SCORE: Final = "perf_score"


class PerfWeigher(weights.BaseHostWeigher):
    """Weighs a host with its score of 0 to 100; a host without a current score has 0.

    The scale is fixed, not that of the candidates: between hosts at 97 and 96 the weight differs by 0.01, as
    their performance does, and noise of a measurement decides ties only. Instances without ``perf:`` specs
    leave the order as it is; they must not fill the fastest hosts.
    """

    minval = 0.0
    maxval = 100.0

    def weight_multiplier(self, host_state: Any) -> float:
        """Return the option's value, or that of an aggregate of the host; its default when it is no number.

        Times zero, nan and inf are nan, with which Nova sorts the hosts of all instances at random.
        """
        option = _multiplier()
        multiplier: float = utils.get_weight_multiplier(host_state, "perf_weight_multiplier", option)
        return multiplier if math.isfinite(multiplier) else option

    def _weigh_object(self, host_state: Any, weight_properties: Any) -> float:
        flavor = weight_properties.flavor
        if "extra_specs" not in flavor or not any(
            key.startswith(vocabulary.PREFIX) for key in flavor.extra_specs or {}
        ):
            return 0.0
        try:
            score = float((host_state.stats or {}).get(SCORE, 0.0))
        except (TypeError, ValueError):
            return 0.0
        return score if math.isfinite(score) else 0.0


def _multiplier() -> float:
    """Return the option; a typo in it must not keep the scheduler from its work."""
    try:
        return float(options.value(CONF, "perf_weight_multiplier"))
    except (cfg.Error, ValueError) as error:
        _tell(" ".join(str(error).split()))
        return options.WEIGHT


@functools.cache
def _tell(error: str) -> None:
    LOG.error("[nova_perf_tuning] perf_weight_multiplier: %s; %s holds until it is mended", error, options.WEIGHT)
