# SPDX-License-Identifier: Apache-2.0
"""Make doc/source/tutorial.rst from the output of a whole run of ``tools/demo.sh``.

    tools/demo.sh 2>&1 | tee demo.log
    python doc/make_tutorial.py demo.log > doc/source/tutorial.rst

What stands in the page was printed by that run; long output is cut, and the cut is shown.
"""

import re
import sys
import textwrap

COLOUR = re.compile(r"\x1b\[[0-9;]*m")
STEP = re.compile(r"^\[(\d+)/\d+\] (.*?)  \((\d+) s so far.*\)$")
PROMPT = re.compile(r"^host[12]\$ ")
#: A terminal's progress.
NOISE = re.compile(
    r"^\[\d+/\d+\] (about|\d|done|longer)|^== |^   \d+ s:|^openstack perf validate: run "
)
#: Directories of whoever ran it.
PATHS = (
    (re.compile(r"\S*/heat/flavors\.yaml"), "heat/flavors.yaml"),
    (re.compile(r"(?<=sqlite:///)/\S*?report(?=/)"), "report"),
    (re.compile(r"(?<![/:])/\S*?report(?=/|\s|$)"), "report"),
)
LINES, WIDTH = 62, 115
#: Of prose.
PROSE_WIDTH = 79

HEAD = """\
===============================================
Tutorial: from flavor to verdict on one machine
===============================================

One command shows everything that this project does with OpenStack, from the
flavor to the verdict that the scheduler follows. It starts a cloud with two
compute hosts on this machine, and removes it at the end::

    tools/demo.sh

``doc/make_tutorial.py`` made this page from the output of such a run. The
virtual machine had two shared CPUs and no KVM, so its guests are emulated: the
figures compare hosts with each other, not with hardware. Lines that are cut end
in ``...``. ``host1$`` and ``host2$`` name the host on which a command runs. In
a cloud that ``tools/cloud/up`` has started, enter
``tools/cloud/run --host N -- COMMAND``.
"""

PROSE = {
    1: "The services are released ones; nova-compute loads the driver of this tree. "
    ":doc:`contributor/cloud` lists the differences from a real cloud.",
    2: "A profile is a named set of extra specs for one kind of load.",
    3: "Each host gets a Heat stack with two guests. A limit on the CPU time of the guests on host2 makes that "
    "host sick, once they have booted. ``explain`` shows what each spec becomes: Nova's own ``hw:*``, XML, or a "
    "setting of the host. Every ``perf:`` key has a validator in Nova's API, from microversion 2.86 on.",
    4: "Both hosts are this machine, so they look alike. It has no physical NIC, so the plan has few settings; "
    "README shows the plan of a host with NICs.",
    5: "``--peers 0`` measures each host by itself. The guests of a host are compared with those of the other "
    "one: ``--max-loss 0.3`` allows a loss of 30 % against it.",
    6: "``nova-perf publish`` writes the file that nova-compute reads on its host; the trait appears with its "
    "next report. ``openstack perf publish --disable-on-fail`` then takes the sick host out of service.",
    7: "A flavor can require validated hosts. While host2 is measured again, only host1 can take its guests.",
    8: "The same command, now without the limit.",
    9: "host2 passes, and gets the trait.",
    10: "The destination writes the guest's XML with its own CPUs; everything else stays.",
    11: "The time that each step took.",
}


def main() -> int:
    """Print the page."""
    if len(sys.argv) != 2:
        print("usage: make_tutorial.py LOG", file=sys.stderr)
        return 3
    with open(sys.argv[1], encoding="utf-8") as file:
        lines = [COLOUR.sub("", line.rstrip("\n")) for line in file]
    print(HEAD)
    for number, title, body in steps(lines):
        print(
            f"{title}\n{'-' * len(title)}\n\n{textwrap.fill(PROSE[number], PROSE_WIDTH, break_on_hyphens=False)}\n"
        )
        for block in blocks(body):
            print("::\n")
            print("\n".join(f"    {line}".rstrip() for line in block) + "\n")
    print(
        f"After {seconds(lines)} s the cloud was gone. :doc:`admin/measuring` explains the report."
    )
    return 0


def shown(line: str) -> list[str]:
    """Return a line without foreign paths; what does not fit is cut in tables and folded elsewhere."""
    for pattern, text in PATHS:
        line = pattern.sub(text, line)
    if PROMPT.match(line):
        return folded(line)
    if len(line) <= WIDTH:
        return [line]
    if line.startswith(("+", "|")) or "   " in line.strip():  # columns
        return [f"{line[: WIDTH - 4]} ..."]
    return textwrap.wrap(line, WIDTH, subsequent_indent="    ", break_on_hyphens=False)


def steps(lines: list[str]) -> list[tuple[int, str, list[str]]]:
    """Return number, title and lines of each step."""
    found: list[tuple[int, str, list[str]]] = []
    for line in lines:
        if line.startswith("That took"):
            break
        begun = STEP.match(line)
        if begun:
            found.append((int(begun[1]), begun[2], []))
        elif found and not NOISE.match(line):
            found[-1][2].append(line)
    return found


def blocks(body: list[str]) -> list[list[str]]:
    """Return what each command printed, the command first; long ones are cut."""
    found: list[list[str]] = [[]]
    for line in body:
        if PROMPT.match(line) and found[-1]:
            found.append([])
        found[-1] += shown(line)
    return [cut(block) for block in found if any(line.strip() for line in block)]


def folded(line: str) -> list[str]:
    """Return a command over several lines, as a shell takes it."""
    rows = [""]
    for word in line.split(" "):
        if len(rows[-1]) + len(word) + 3 > WIDTH:
            rows[-1] += "\\"
            rows.append("    ")
        rows[-1] += f"{word} "
    return [row.rstrip() for row in rows]


def cut(block: list[str]) -> list[str]:
    """Return at most :data:`LINES` lines, without empty ones at the ends."""
    text = "\n".join(block).strip("\n").split("\n")
    return (
        text
        if len(text) <= LINES
        else [*text[: LINES - 1], f"... ({len(text) - LINES + 1} lines more)"]
    )


def seconds(lines: list[str]) -> str:
    """Return what the last line of the run says of its length; fails where it was not whole."""
    for line in reversed(lines):
        if output := re.match(r"That took (\d+) s", line):
            return output[1]
    raise SystemExit("make_tutorial.py: that run did not come to its end")


if __name__ == "__main__":
    sys.exit(main())
