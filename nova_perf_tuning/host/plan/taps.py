"""How many frames the taps of guests pass on in one go (``perf:vif_tap_rx_frames``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.guest import domain as domain_module
from nova_perf_tuning.host import model, setting
from nova_perf_tuning.host.plan import guests

#: From here on vhost-net passes it by in the ordinary case: since Linux 4.20 it hands over batches of its own
#: instead of frame after frame with MSG_MORE (handle_tx_copy()), and what it sends without copying, still with
#: MSG_MORE (handle_tx_zerocopy()), is off by default since Linux 5.3.
_VHOST_BATCHES: Final = (5, 3)
_RELEASE: Final = re.compile(r"(\d{1,4})\.(\d{1,4})").match


def settings(found: Sequence[guests.Asked], facts: model.HostFacts, warnings: list[str]) -> list[setting.Setting]:
    """Return rx-frames of the taps of guests that ask for it.

    libvirt could do it (``<coalesce>``), but takes that for interfaces of type bridge and network alone, and
    refuses the whole domain otherwise; for Open vSwitch and OVN Nova makes them of type ethernet.
    """
    result = []
    for asked in found:
        frames = asked.request.vif_tap_rx_frames
        if frames is None:
            continue
        head = f"{asked.title} asks vif_tap_rx_frames={frames}: "
        left = []
        for interface in asked.domain.interfaces:
            tap = facts.taps.get(interface.device or "")
            if tap is None or not guests.has_workers(interface):
                left.append(_shown(interface))
                continue
            reason = f"{head}its tap {interface.device} passes on up to {frames} frames from the guest in one go"
            if not frames:
                reason = f"{head}its tap {interface.device} passes on each frame from the guest by itself"
            current = None if tap.rx_frames is None else str(tap.rx_frames)
            target = f"{interface.device}/rx-frames"
            result.append(
                setting.Setting(
                    "coalesce", target, str(frames), current, reason, "tap-rx-frames", str(tap.ifindex)
                )
            )
        if left:
            warnings.append(f"{head}no tap that vhost-net serves, left alone: {', '.join(left)}")
    release = _RELEASE(facts.kernel or "")
    if result and release and (int(release[1]), int(release[2])) >= _VHOST_BATCHES:
        warnings.append(
            f"perf:vif_tap_rx_frames: vhost-net of this kernel ({facts.kernel}) makes batches of its own, for "
            f"which the value of the {len(result)} taps counts nothing, unless an interface's send buffer is "
            "limited (<tune><sndbuf>) or vhost_net.experimental_zcopytx is 1"
        )
    return result


def _shown(interface: domain_module.Interface) -> str:
    name = interface.device or interface.mac or "an interface"
    return f"{name} ({interface.kind}, {interface.model or 'no model'})"
