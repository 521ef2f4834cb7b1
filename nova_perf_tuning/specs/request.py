# SPDX-License-Identifier: Apache-2.0
"""What a flavor and an image ask for, after parsing: the value that travels down the whole pipeline."""

import dataclasses
from collections.abc import Mapping
from typing import Final, Literal

#: A queue count that is worked out from the guest and its host.
AUTO: Final = "auto"
Queues = int | Literal["auto"]


@dataclasses.dataclass(frozen=True, slots=True)
class Request:
    """One guest's ``perf:*`` request; ``None`` or an empty mapping means "not asked, leave alone".

    The fields are the extra specs of the same name (:mod:`nova_perf_tuning.specs.vocabulary`).

    :ivar native: Nova's own ``hw:*`` specs that a profile added (explicit ones are not repeated
        here).
    """

    profile: str | None = None
    vif_queues: Queues | None = None
    vif_rx_queue_size: int | None = None
    vif_tx_queue_size: int | None = None
    vif_host_offload: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    vif_guest_offload: Mapping[str, bool] = dataclasses.field(default_factory=dict)
    iothreads: int | None = None
    disk_queues: Queues | None = None
    free_page_reporting: bool | None = None
    emulator_placement: str | None = None
    vhost_placement: str | None = None
    irq_placement: str | None = None
    pci_topology: str | None = None
    budget: str | None = None
    native: Mapping[str, str] = dataclasses.field(default_factory=dict)

    def __bool__(self) -> bool:
        """True when anything at all is asked."""
        return self != _NOTHING

    def extra_specs(self) -> dict[str, str]:
        """Return the request as flat ``perf:*`` extra specs (profile already expanded, its name kept).

        ``specs.parsing.parse(request.extra_specs())`` gives an equal request but for ``native``.
        """
        specs: dict[str, str] = {}
        for name in _SPECS:
            value = getattr(self, name)
            if isinstance(value, bool):
                specs[f"perf:{name}"] = _WORDS[value]
            elif isinstance(value, (str, int)):
                specs[f"perf:{name}"] = str(value)
            elif value:
                for key, on in sorted(value.items()):
                    specs[f"perf:{name}.{key}"] = _WORDS[on]
        return specs


_WORDS: Final = {True: "true", False: "false"}
_NOTHING: Final = Request()
_SPECS: Final = tuple(
    field.name for field in dataclasses.fields(Request) if field.name != "native"
)
