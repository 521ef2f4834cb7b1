# SPDX-License-Identifier: Apache-2.0
"""A soft preference in nova-scheduler for hosts that did well in their latest validation.

nova-compute reports the score with its inventory (``compute_node.stats``, which the scheduler
holds already), so this needs no service of its own. Hard requirements are traits, not weights: see
:mod:`nova_perf_tuning.nova.traits`.
"""

import nova.conf
from nova.scheduler import utils, weights
from oslo_config import cfg
from oslo_log import log as logging

from nova_perf_tuning.conf import nova as options
from nova_perf_tuning.nova import HostState, RequestSpec, guest_request, traits
from nova_perf_tuning.specs import vocabulary

LOG = logging.getLogger(__name__)
CONF = nova.conf.CONF
options.register_opts(CONF)


class PerfWeigher(weights.BaseHostWeigher):
    """Weighs a host with its score of 0 to 100; a host without a current score has 0.

    The scale is fixed, not that of the candidates: between hosts at 97 and 96 the weight differs
    by 0.01, as their performance does, and noise of a measurement decides ties only. Instances
    without ``perf:`` specs leave the order as it is; they must not fill the fastest hosts.
    """

    minval = 0.0
    maxval = 100.0

    def weight_multiplier(self, host_state: HostState) -> float:
        """Return the option's value, or that of an aggregate of the host."""
        try:
            option = CONF.nova_perf_tuning.perf_weight_multiplier or 0.0
        except (cfg.Error, ValueError):  # a typo must not keep the scheduler from its work
            LOG.error(
                "[nova_perf_tuning] perf_weight_multiplier cannot be used; %s holds",
                options.WEIGHT,
            )
            option = options.WEIGHT
        return float(utils.get_weight_multiplier(host_state, "perf_weight_multiplier", option))

    def _weigh_object(self, host_state: HostState, weight_properties: RequestSpec) -> float:
        specs = guest_request.extra_specs(weight_properties.flavor)
        if not any(key.startswith(vocabulary.PREFIX) for key in specs):
            return 0.0
        try:
            # Another host's compute service wrote it; nan and what is beyond the scale become its
            # ends.
            return min(100.0, max(0.0, float((host_state.stats or {}).get(traits.SCORE, 0.0))))
        except (TypeError, ValueError):
            return 0.0
