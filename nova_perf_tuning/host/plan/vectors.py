# SPDX-License-Identifier: Apache-2.0
"""Which interrupt serves which queue of a NIC.

The kernel says it for drivers that tell it (:attr:`nova_perf_tuning.host.model.host_model.Nic.napis`).
Elsewhere the names say it that drivers give to request_irq() in Linux' drivers/net, by positive
rules: an interrupt that no rule knows serves no queue (RDMA, firmware, slow path, mailbox, flow
director). Most drivers write ``NAME-STEM-NUMBER``: ice, i40e, iavf, ixgbe, igb, igc, e1000e,
bnxt_en (TxRx, rx, tx), ena (Tx-Rx), qede, bnx2x (fp), nfp, vmxnet3 (rxtx), enic (rx, tx), be2net
(q), or ``NAME-NUMBER``: sfc, bnx2, cxgb3, older mlx4 and mlx5; others' rules are in ``_RULES``.
NAME is the PCI address where the vectors were requested before the NIC had a name (sfc).
A number after the NIC's own name and a direction is a queue's, whatever the driver (stmmac:
``eth0:rx-0``). xen-netfront with one queue and ibmveth have one interrupt with the NIC's name; hv_netvsc
has none of its own. All vectors of atlantic have the NIC's name, that of the link, too: which serve
queues is not known.

Intel's own ice has ``NAME-STEM-FIRST-LAST``, for the queues of one vector. bnxt_en cut its names to 17
characters up to Linux 6.11: several then have the same name, and which is which queue's is not known.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from nova_perf_tuning.host.model import host_model

# No colon: vectors of a control VSI have a PCI address (ice-0000:65:00.0:ctrl-TxRx-0,
# i40e-…:fdir-TxRx-0).
_WAYS: Final = "TxRx|Tx-Rx|txrx|rxtx|fp|rx|tx|Rx|Tx|q|Q"
_STEMS: Final = re.compile(rf"[^:@]+?-(?P<way>{_WAYS})-?(?P<number>\d{{1,4}})")
_SPANS: Final = re.compile(rf"[^:@]+?-(?P<way>{_WAYS})-(?P<number>\d{{1,4}})-(?P<last>\d{{1,4}})")
_RULES: Final = {
    "al_eth": re.compile(r"al-eth-(?P<way>rx|tx)-comp-(?P<number>\d{1,4})@pci:.+"),
    "bna": re.compile(r".+ (?P<way>TXQ|CQ) (?P<number>\d{1,4})"),
    "cxgb4": re.compile(r".+[- ]\(?(?P<way>Rx|queue) ?(?P<number>\d{1,4})\)?"),
    # gve is called gvnic in sysfs up to Linux 6.4; its names have the text eth%d up to 5.15.
    "gve": re.compile(r"(gve-ntfy-blk|.+-ntfy-block\.)(?P<number>\d{1,4})(@pci:.+)?"),
    "ehea": re.compile(r".+-queue(?P<number>\d{1,4})"),
    "hns3": re.compile(r".+-(?P<way>TxRx|Rx|Tx)-(?P<number>\d{1,4})"),
    "hinic": re.compile(r".+_(?P<way>rx|tx|qp)q?(?P<number>\d{1,4})"),
    "hinic3": re.compile(r".+_qp(?P<number>\d{1,4})"),
    "ibmvnic": re.compile(r"ibmvnic-[0-9a-f]+-(?P<way>rx|tx)(?P<number>\d{1,4})"),
    # An interrupt that is called after a receive queue serves the transmit queue of its number, too.
    "ionic": re.compile(r"ionic-.+-L\d+-(rx|(?P<way>tx))(?P<number>\d{1,4})"),
    "mana": re.compile(r"mana_q(?P<number>\d{1,4})@pci:.+"),
    "mlx4_core": re.compile(r"mlx4-(comp-)?(?P<number>\d{1,4})@.+"),
    "mlx5_core": re.compile(r"mlx5_comp(?P<number>\d{1,4})(@pci:.+)?"),
    "myri10ge": re.compile(r".+:slice-(?P<number>\d{1,4})"),
    "netxen_nic": re.compile(r".+\[(?P<number>\d{1,4})\]"),
    "tg3": _STEMS,
    "vif": re.compile(r".+-q(?P<number>\d{1,4})(-(?P<way>rx|tx))?"),  # xen-netfront
    "virtio_net": re.compile(r"virtio\d+-(?P<way>input|output)\.(?P<number>\d{1,4})"),
}
#: What may serve all queues of a NIC beside its own name: the vector that virtio's queues share.
_SHARED: Final = re.compile(r"virtio\d+(-virtqueues)?")
#: What sends what XDP programs return or redirect, for each CPU; it serves no queue of the stack (sfc).
_XDP: Final = re.compile(r".+-xdp-\d{1,4}")
#: What drivers call interrupts that serve no queue.
_CONTROL: Final = re.compile(
    r".*[-:](admin|adminq|async\d*|aux|config|control|ctrl|fdir|mbx|mgmt|misc)\b.*"
)
_ALIASES: Final = {"gvnic": "gve"}
_RECEIVING: Final = frozenset(("rx", "Rx", "input", "queue", "CQ"))
_SENDING: Final = frozenset(("tx", "Tx", "output", "TXQ"))
#: Drivers whose transmit queue of a further traffic class is on the vector of its number modulo
#: the channels: mlx5e_build_txq_maps(), bnxt's tx_ring_map, qede's ndev_txq_id,
#: ixgbe_alloc_q_vectors().
_BY_MODULO: Final = frozenset(("mlx5_core", "bnxt_en", "qede", "ixgbe"))


@dataclasses.dataclass(frozen=True, slots=True)
class Vectors:
    """The interrupts of a NIC.

    :ivar queues: number of a queue, ascending -> what serves it: with some drivers one for each
        direction.
    :ivar other: interrupts of no queue, in the order given.
    :ivar sending: for each transmit queue the key of ``queues`` that serves it; None where that is
        not known.
    :ivar surplus: how many are named like a queue's that the NIC does not have; they are among the
        others.
    :ivar more: key of ``queues`` -> how many of the next queues the same interrupt serves, if any.
    :ivar numbered: whether the keys of ``queues`` are numbers of queues; else they only count them:
        the names have lost the numbers.
    """

    queues: Mapping[int, Sequence[host_model.Irq]]
    other: Sequence[host_model.Irq]
    sending: Sequence[int] | None = None
    surplus: int = 0
    more: Mapping[int, int] = dataclasses.field(default_factory=dict)
    numbered: bool = True


@dataclasses.dataclass(slots=True)
class _Serving:
    """An interrupt that serves a queue.

    :ivar number: of the queue; :ivar way: what the driver calls the direction, empty for both.
    :ivar more: how many of the next queues it serves as well.
    """

    number: int
    way: str
    irq: host_model.Irq
    more: int = 0


def classify(nic: host_model.Nic, irqs: Sequence[host_model.Irq]) -> Vectors:
    """Sort a NIC's interrupts into those of its queues and others.

    By the NIC's NAPIs, if they say anything of these interrupts; else by the names of handlers.
    """
    by_kernel = _by_kernel(nic, irqs)
    if by_kernel is not None:
        return by_kernel
    return _by_name(nic, irqs)


def serves_xdp(irq: host_model.Irq) -> bool:
    """Whether an interrupt carries packets of XDP programs alone, by its name."""
    return bool(_XDP.fullmatch(irq.name or ""))


def may_serve_queues(irq: host_model.Irq) -> bool:
    """Whether an interrupt that no rule knows may serve queues; no word in its name says otherwise."""
    return not _CONTROL.fullmatch(irq.name or "")


def node_of(nic: host_model.Nic, irq: host_model.Irq) -> int | None:
    """Return the node of a NIC's interrupt: that of its function, where the NIC has several."""
    return nic.node if irq.node is None or irq.device in (None, nic.pci) else irq.node


def _by_kernel(nic: host_model.Nic, irqs: Sequence[host_model.Irq]) -> Vectors | None:
    """Sort by the NIC's NAPIs; None where they say nothing of these interrupts.

    A transmit queue with a NAPI of its own may share its interrupt with a receive queue (mlx4).
    """
    there = {irq.number for irq in irqs}
    napis = [napi for napi in nic.napis if napi.irq in there and (napi.rx or napi.tx)]
    keys: dict[int | None, int] = {}
    for napi in sorted(napis, key=lambda napi: not napi.rx):
        keys.setdefault(napi.irq, min(napi.rx or napi.tx))
    if not keys:
        return None
    senders: dict[int, int] = {}
    for napi in napis:
        senders |= dict.fromkeys(napi.tx, keys[napi.irq])
    serving = [_Serving(keys[irq.number], "", irq) for irq in irqs if irq.number in keys]
    return _sorted(nic, irqs, serving, senders)


def _by_name(nic: host_model.Nic, irqs: Sequence[host_model.Irq]) -> Vectors:
    if not any(irq.name for irq in irqs):
        # The NIC is down. Every interrupt counts as a queue's, so that little moves when it comes
        # up.
        senders = {queue: queue for queue in range(min(nic.tx_queues, len(irqs)))}
        return _sorted(nic, irqs, _in_order(irqs), senders)
    named = _named(nic, irqs)
    unnumbered = [irq for irq in irqs if _lost_its_number(nic, irq)]
    if unnumbered or _repeated(named):
        numbers = {irq.number for irq in unnumbered}
        numbers.update(serving.irq.number for serving in named)
        of_queues = [irq for irq in irqs if irq.number in numbers]
        cut = _sorted(nic, irqs, _in_order(of_queues), {})
        return dataclasses.replace(cut, numbered=False)
    if not named:
        shared = [irq for irq in irqs if _serves_all(nic, irq)]
        if len(shared) != 1:  # of several nothing says which of them serve queues
            return _sorted(nic, irqs, [], {})
        senders = dict.fromkeys(range(nic.tx_queues), 0)
        return _sorted(nic, irqs, _in_order(shared), senders)
    if nic.driver == "mlx4_core":
        # The numbers are those of event queues, which two ports and RDMA share, or the NIC's own:
        # a NIC that has its own uses none of the others.
        own = [serving for serving in named if (serving.irq.name or "").startswith(nic.name)]
        return _sorted(nic, irqs, own or named, {})
    _renumber(nic, named)
    by_modulo = nic.driver in _BY_MODULO
    channels = nic.rx_queues if by_modulo else max(nic.rx_queues, nic.tx_queues)
    fitting: list[_Serving] = []
    able: dict[int, int] = {}  # queue whose interrupt also serves what is sent -> its key
    for serving in named:
        most = nic.tx_queues if serving.way in _SENDING else channels
        if most and serving.number >= most:
            continue
        fitting.append(serving)
        if serving.way not in _RECEIVING:
            first = serving.number
            able |= dict.fromkeys(range(first, first + serving.more + 1), first)
    senders = {}
    for queue in range(nic.tx_queues):
        sender = queue
        if by_modulo and channels and queue not in able:
            sender = queue % channels
        if sender in able:
            senders[queue] = able[sender]
    surplus = len(named) - len(fitting)
    more = {serving.number: serving.more for serving in fitting if serving.more}
    vectors = _sorted(nic, irqs, fitting, senders)
    return dataclasses.replace(vectors, surplus=surplus, more=more)


def _in_order(irqs: Iterable[host_model.Irq]) -> list[_Serving]:
    """Let the n-th interrupt serve queue n."""
    return [_Serving(index, "", irq) for index, irq in enumerate(irqs)]


def _named(nic: host_model.Nic, irqs: Iterable[host_model.Irq]) -> list[_Serving]:
    """Return the interrupts whose names have a queue's number, by the first rule that fits."""
    named: list[_Serving] = []
    rules = _rules(nic)
    for irq in irqs:
        for rule in rules:
            match = rule.fullmatch(irq.name or "")
            if match is not None:
                groups = match.groupdict()
                number = int(match["number"])
                last = int(groups.get("last") or number)
                more = min(max(last - number, 0), nic.rx_queues)
                named.append(_Serving(number, groups.get("way") or "", irq, more))
                break
    return named


def _lost_its_number(nic: host_model.Nic, irq: host_model.Irq) -> bool:
    """Whether a name is a queue's and cut before the queue's number."""
    name = irq.name or ""
    if len(name) < len(nic.name) + 2:
        return False
    return any(f"{nic.name}-{way}-".startswith(name) for way in _WAYS.split("|"))


def _repeated(named: Iterable[_Serving]) -> bool:
    """Whether two interrupts of one function have the same name: the end of a number is cut off."""
    seen: set[tuple[str | None, str | None]] = set()
    for serving in named:
        key = (serving.irq.device, serving.irq.name)
        if key in seen:
            return True
        seen.add(key)
    return False


def _driver(nic: host_model.Nic) -> str | None:
    """Return the driver by the name that the rules have for it."""
    if nic.driver is None:
        return None
    return _ALIASES.get(nic.driver, nic.driver)


def _rules(nic: host_model.Nic) -> Sequence[re.Pattern[str]]:
    """Return the rules for a NIC; where its driver is not known, all."""
    name = re.escape(nic.name)
    at_probe = name
    if nic.pci is not None:
        at_probe = f"(?:{name}|{re.escape(nic.pci)})"
    by_number = re.compile(rf"{at_probe}(?:-(?P<way>rx|tx))?-(?P<number>\d{{1,4}})")
    by_direction = re.compile(rf"{name}[:@.](?P<way>{_WAYS})-?(?P<number>\d{{1,4}})")
    driver = _driver(nic)
    if driver in ("mlx4_core", "mlx5_core"):
        return [_RULES[driver], by_number]
    if driver in _RULES:
        return [_RULES[driver]]
    rules = [_STEMS, _SPANS, by_number, by_direction]
    if driver is None:
        rules += _RULES.values()
    return rules


def _serves_all(nic: host_model.Nic, irq: host_model.Irq) -> bool:
    if nic.pci is None and len(nic.irqs) == 1:  # it was found by the NIC's own name
        return True
    names = (irq.name or "").split(",")  # devices that share a line
    return any(name == nic.name or _SHARED.fullmatch(name) for name in names)


def _renumber(nic: host_model.Nic, named: Sequence[_Serving]) -> None:
    """Turn the numbers that the driver wrote into those of the queues."""
    highest = max(serving.number for serving in named)
    match _driver(nic):
        case "mlx5_core":
            _number_across_functions(nic, named)
        case "gve":  # gve_rx_idx_to_ntfy(): the second half receives
            half = max(1, (highest + 1) // 2)
            for serving in named:
                serving.number %= half
        case "hns3":
            step = _step(named)
            for serving in named:
                serving.number //= step
        case "idpf":  # the mailbox has the function's first vector; later kernels count queues
            _count_from(min(serving.number for serving in named), named)
        case "tg3":  # vector 0 is the link's; without TSS it sends, too
            _count_from(1, named)
        case "vmxnet3":  # it counts on from those that send
            sending = sum(serving.way in _SENDING for serving in named)
            for serving in named:
                if serving.way in _RECEIVING:
                    serving.number -= sending


def _count_from(first: int, named: Iterable[_Serving]) -> None:
    """Let queue 0 be what has the number ``first`` or a lower one."""
    for serving in named:
        serving.number = max(serving.number - first, 0)


def _step(named: Sequence[_Serving]) -> int:
    """Return by how many a driver counts on from queue to queue: hns3 may count by twos."""
    has_odd = any(serving.number % 2 for serving in named)
    return 1 if has_odd or len(named) == 1 else 2


def _number_across_functions(nic: host_model.Nic, named: Sequence[_Serving]) -> None:
    """Number the queues of one netdev on several functions: mlx5_sd_ch_ix_get_dev_ix(), ..._get_vec_ix()."""
    functions = sorted({_function(nic, serving.irq) for serving in named})
    for serving in named:
        position = functions.index(_function(nic, serving.irq))
        serving.number = serving.number * len(functions) + position


def _function(nic: host_model.Nic, irq: host_model.Irq) -> tuple[bool, str]:
    """Return a key of an interrupt's PCI function; the NIC's own function comes first."""
    return irq.device != nic.pci, irq.device or ""


def _sorted(
    nic: host_model.Nic,
    irqs: Sequence[host_model.Irq],
    serving: Iterable[_Serving],
    senders: Mapping[int, int],
) -> Vectors:
    """Return the interrupts sorted, given those that serve a queue.

    :param senders: transmit queue -> the queue of ``serving`` that it sends with.
    """
    queues: dict[int, list[host_model.Irq]] = {}
    placed: set[int] = set()
    for each in serving:
        queues.setdefault(each.number, []).append(each.irq)
        placed.add(each.irq.number)
    other = [irq for irq in irqs if irq.number not in placed]
    sending = None
    if queues and all(queue in senders for queue in range(nic.tx_queues)):
        sending = [senders[queue] for queue in range(nic.tx_queues)]
    return Vectors(dict(sorted(queues.items())), other, sending)
