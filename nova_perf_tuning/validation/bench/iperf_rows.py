# SPDX-License-Identifier: Apache-2.0
"""The lines of figures that iperf 2 and iperf3 print alike."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Final

from nova_perf_tuning.validation.bench import base, pasted

_ROW: Final = re.compile(
    r"^\[[ ]*(\*?[0-9]{1,5}|SUM)\](?:\[([TR]X-[CS])\])?[ ]+([0-9]{1,9}\.[0-9]{1,6})[ ]*-[ ]*"
    r"([0-9]{1,9}\.[0-9]{1,6})[ ]+sec[ ]+([0-9]{1,12}(?:\.[0-9]{1,3})?)[ ]*([KMGT]?)Bytes[ ]+"
    r"([0-9]{1,12}(?:\.[0-9]{1,3})?)[ ]*([KMGT]?)(bits|Bytes)/sec(.*)$"
)
_LOSSES: Final = re.compile(
    r"^[ ]*([0-9]{1,9}\.[0-9]{1,6})[ ]*ms[ ]+([0-9]{1,15})/[ ]*([0-9]{1,15})[ ]+\("
)
#: A row of datagrams, whether or not its counts can be read.
#: What a signed counter of 32 bits holds at most.
_END_OF_COUNTER: Final = 2**31 - 1
_JITTER: Final = re.compile(r"^[ ]*[0-9][0-9.,]{0,20}[ ]*ms(?:[ ]|$)")
SUM: Final = "SUM"
_LATE: Final = re.compile(
    r"^\[[ ]*(\*?[0-9]{1,5}|SUM)\][ ]+[0-9.]{3,14}[ ]*-[ ]*[0-9.]{3,14}[ ]+sec[ ]+([0-9]{1,15})"
    r" datagrams received out-of-order"
)
#: A line of a stream, and one that says which ends a stream has.
_STREAM: Final = re.compile(r"^\[[ ]*(?:\*?[0-9]{1,5}|SUM)\]")
_ENDS: Final = re.compile(
    r"^\[[ ]*\*?[0-9]{1,5}\] local \S{1,100} port [0-9]{1,5} connected (?:with|to) \S{1,100}"
    r" port [0-9]{1,5}\b"
)
#: How people call the programs, perhaps with a version.
COMMAND: Final = r"iperf3?[\w.-]{0,20}"
_OPTION: Final = re.compile(r"^--?[A-Za-z]")
#: A rate as -b has it, in bits a second, perhaps with a burst behind.
_RATE: Final = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,6})?)([kKmMgG]?)(?:bits?)?(?:/[0-9]{1,6})?")
#: A sender that comes so near to a rate was held back by it.
_REACHED: Final = 0.95
#: Amounts have three digits, and both sides do not end at the same moment.
_MORE: Final = 1.05
#: Two paths that take turns leave half of the datagrams behind those that were sent later.
_MOST_LATE: Final = 0.5
#: Datagrams in flight at the end.
_FEW_UNSEEN: Final = 0.01
#: Streams of which none ends before so much of the longest have ended together.
_TOGETHER: Final = 0.9


@dataclasses.dataclass(frozen=True, slots=True)
class IperfRow:
    """One line of figures.

    :ivar stream: its number, or ``SUM``; :ivar role: ``TX-C`` and the like, or empty.
    :ivar amount: bytes; :ivar rate: bits a second; :ivar rest: what stands behind.
    """

    stream: str
    role: str
    begin: float
    end: float
    amount: float
    rate: float
    rest: str

    @property
    def losses(self) -> tuple[float, float, float] | None:
        """Jitter in milliseconds, datagrams lost and counted in all; None: the line has none."""
        found = _LOSSES.match(self.rest)
        if not found:
            return None
        return float(found[1]), float(found[2]), float(found[3])


def row(line: str) -> IperfRow | None:
    found = _ROW.match(line)
    if not found or (_JITTER.match(found[10]) and not _LOSSES.match(found[10])):
        return None
    # Bytes are counted in multiples of 1,024, bits in those of 1,000.
    amount = float(found[5]) * pasted.BINARY[found[6]]
    rate = float(found[7]) * pasted.DECIMAL[found[8]]
    if found[9] == "Bytes":
        rate = float(found[7]) * pasted.BINARY[found[8]] * 8
    return IperfRow(
        found[1], found[2] or "", float(found[3]), float(found[4]), amount, rate, found[10].strip()
    )


def unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with those in one that a mail has wrapped, where the whole line shows it.

    These are a command with options in the next line, and a line of a stream that is none alone.
    """
    whole: list[str] = []
    for line in lines:
        before = ""
        if whole:
            before = whole[-1]
        wrapped = f"{before} {line}"
        of_stream = _STREAM.match(before) is not None
        if of_stream and not _is_whole(before) and _is_whole(wrapped):
            whole[-1] = wrapped
        elif of_stream and row(before) is not None and _LOSSES.match(line):
            whole[-1] = wrapped
        elif "iperf" in before and _OPTION.match(line) and pasted.command(before, COMMAND):
            whole[-1] = wrapped
        else:
            whole.append(line)
    return whole


def _is_whole(line: str) -> bool:
    """Return whether a line of a stream has all its figures, or both its ends."""
    return row(line) is not None or _ENDS.match(line) is not None


def asked_rate(text: str) -> float | None:
    """Return the bits a second of an option -b; None: it is no such number."""
    found = _RATE.fullmatch(text)
    if found is None:
        return None
    return float(found[1]) * pasted.DECIMAL[found[2].upper()]


def rate_remarks(asked: float, streams: int, sent: float) -> dict[str, str]:
    """Return what to say of a rate that was set: code -> text for a person; nothing where there is none.

    :param asked: bits a second of each stream, 0: none was set; :param sent: of all, what was sent or arrived.
    """
    if asked <= 0:
        return {}
    said = f"{asked / 1e6:g} Mbit/s a stream (-b)"
    if sent >= _REACHED * asked * max(1, streams):
        return {"held_to_a_rate": f"the sender was held to {said}"}
    return {"rate_not_reached": f"a rate of {said} was set, and the sender stayed below it"}


def lengths_remark(ends: Sequence[float]) -> str:
    """Return what to say of streams that did not end together; empty: they did.

    :param ends: when each ended, in seconds.
    """
    if len(ends) < 2 or min(ends) >= _TOGETHER * max(ends):
        return ""
    longest = max(ends)
    late = [end for end in ends if end >= _TOGETHER * longest]
    others = [end for end in ends if end < _TOGETHER * longest]
    shown = f"{min(others):g} s"
    if min(others) < max(others):
        shown = f"{min(others):g} to {max(others):g} s"
    return (
        f"{len(late)} of {len(ends)} streams ended after {longest:g} s, the others after {shown}:"
        f" the sum is over {longest:g} s"
    )


def jitter_fault(milliseconds: float, seconds: float) -> str:
    """Return why a jitter is none: it is longer than its test; empty: it is one."""
    if milliseconds <= 1e3 * seconds:
        return ""
    return f"jitter: {milliseconds:g} ms are more than the test took ({seconds:g} s)"


def counts_fault(counted: float) -> str:
    """Return why datagrams that were counted are none: the counter is at its end; empty: they are."""
    if counted != _END_OF_COUNTER:
        return ""
    return f"datagrams lost and received: the count of all is at its end ({counted:.0f})"


def faults(losses: tuple[float, float, float], seconds: float) -> list[str]:
    """Return why figures of a line of UDP are left out."""
    jitter, _lost, counted = losses
    reasons = (jitter_fault(jitter, seconds), counts_fault(counted))
    return [reason for reason in reasons if reason]


def out_of_order(lines: Sequence[str]) -> list[str]:
    """Return what to say of datagrams that came late, which were counted as lost before; none: no line has them."""
    of_stream = _late(lines)
    if not of_stream:
        return []
    count = of_stream.get(SUM, sum(of_stream.values()))
    return [late(count)]


def unseen_remark(sent: float, counted: float) -> dict[str, str]:
    """Return what to say of datagrams behind the receiver's last: code -> text; nothing: there are few.

    :param sent: datagrams that were sent; :param counted: those that the receiver saw or missed between others.
    """
    if sent - counted <= _FEW_UNSEEN * sent:
        return {}
    return {
        "lost_at_the_end": f"'lost' has not the {sent - counted:.0f} datagrams that were sent after"
        " the last that arrived; 'lost_share' has"
    }


def unseen_of(sent: IperfRow, received: IperfRow) -> dict[str, str]:
    """Return what to say of datagrams that were sent after the last that arrived."""
    if sent.losses is None or received.losses is None:
        return {}
    return unseen_remark(sent.losses[2], received.losses[2])


def late(count: float) -> str:
    """Return what to say of datagrams that came late."""
    return f"{count:.0f} datagrams out of order"


def _late(lines: Sequence[str]) -> dict[str, float]:
    """Return stream -> its datagrams out of order; of a stream without such a line nothing."""
    found = [late for late in map(_LATE.match, lines) if late is not None]
    return {late[1]: float(late[2]) for late in found}


def counted_twice(
    sent: IperfRow | None, received: Sequence[IperfRow], lines: Sequence[str]
) -> str:
    """Return why what a receiver has counted of UDP is no throughput; empty: it may be one.

    iperf takes each datagram that comes once more for one out of order, and off those lost.

    :param sent: what was sent; None: not known.
    :param received: the receiver's rows, of each stream or of all; :param lines: of the test.
    """
    of_stream = _late(lines)
    late = sum(of_stream.get(row.stream, 0.0) for row in received)
    if [row.stream for row in received] == [SUM] or set(of_stream) == {SUM}:
        late = of_stream.get(SUM, sum(of_stream.values()))
    counts = [row.losses[2] for row in received if row.losses is not None]
    counted = sum(counts)
    if any(counts_fault(count) for count in counts):
        counted = 0.0
    amount = None
    if sent is not None:
        amount = sent.amount
    return more_than_sent(amount, sum(row.amount for row in received), late, counted)


def more_than_sent(sent: float | None, received: float, late: float, counted: float) -> str:
    """Return why what a receiver has counted of UDP is no throughput; empty: it may be one.

    :param sent: bytes that were sent; None: not known; :param received: bytes.
    :param late: datagrams out of order; :param counted: all that were counted, 0: not known.
    """
    reasons = []
    if sent is not None and received > _MORE * sent:
        reasons.append(f"{received / 1e6:,.0f} MB, and {sent / 1e6:,.0f} MB were sent")
    if counted and late > _MOST_LATE * counted:
        reasons.append(f"{late:,.0f} datagrams out of order, and {counted:,.0f} were sent")
    if not reasons:
        return ""
    return (
        f"the receiver counted {'; '.join(reasons)}: datagrams came more than once, or in no order;"
        " what it counted is no throughput, and is not judged"
    )


def total(tool: base.Benchmark, rows: Sequence[IperfRow], what: str, streams: int = 1) -> IperfRow:
    """Return the one row that is of all streams.

    :param rows: rows of one direction as one side counted it; :param what: their name for errors.
    :param streams: how many the rest of the output shows.
    :raises base.BenchmarkOutputError: the sum of several streams is missing, or there are several tests.
    """
    sums = [row for row in rows if row.stream == SUM]
    single = [row for row in rows if row.stream != SUM]
    twice = len({row.stream for row in single}) < len(single)
    if len(sums) == 1 and not twice:
        return sums[0]
    if not sums and len(single) == 1 and streams <= 1:
        return single[0]
    if len(sums) > 1 or twice:
        raise tool.fault(f"the text has several tests: more than one total of {what}; keep one")
    raise tool.fault(f"the output is cut off: no [SUM] of the streams of {what}")
