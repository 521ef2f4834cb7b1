# SPDX-License-Identifier: Apache-2.0
"""``nova-perf xml``: a domain's XML with a request written into it."""

import argparse
import difflib
import io
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from nova_perf_tuning.cli import command, options
from nova_perf_tuning.cli.options import flavor as flavor_options
from nova_perf_tuning.guest import parsing, pci_topology, queue_total, transform
from nova_perf_tuning.guest.domain import Domain
from nova_perf_tuning.host.input.facts import devices
from nova_perf_tuning.host.input.facts.root import Root
from nova_perf_tuning.printing import printable
from nova_perf_tuning.rules import Finding
from nova_perf_tuning.specs import crosscheck, profiles, request, vocabulary
from nova_perf_tuning.specs import parsing as spec_parsing

#: Lines around a change that a diff shows.
_CONTEXT: Final = 3
#: Lines from the first to the last change that are compared one by one: the time grows with their
#: square or faster.
_MOST_COMPARED: Final = 3000


class Xml(command.PerfCommand):
    """Print a domain's XML with the tuning that its flavor requests, and change nothing.

    Without --profile, --spec and --image-property the request comes from the domain's metadata:
    from this project's element, or else from Nova's. Anything left out is named on stderr; --diff
    shows what changes. perf:pci_topology=numa reads the NUMA nodes of the domain's devices from
    this machine.

    Example: virsh dumpxml --inactive web1 | nova-perf xml --spec perf:profile=storage --diff -
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        options.add(parser, "domain", "DOMAIN.xml", "file with the domain's XML, - for stdin")
        parser.add_argument(
            "--diff", action="store_true", help="print a unified diff instead of the whole XML"
        )
        flavor_options.add_specs(parser)

    def take_action(self, args: argparse.Namespace) -> None:
        specs = flavor_options.flavor(args)
        single = flavor_options.single_warnings(args, specs)
        properties = options.pairs("--image-property", args.image_property)
        own_profiles = profiles.load(args.profile_dir)
        hint = "; give domain XML (virsh dumpxml), or - for stdin"
        data = options.read(args.domain, parsing.MAX_BYTES, hint=hint)
        try:
            guest = parsing.parse_domain(data)
            wanted, warnings = _request(guest, specs, properties, own_profiles)
            result = transform.transform(data, wanted, device_nodes=_device_nodes(data, wanted))
        except parsing.DomainError as error:
            raise options.OptionError(f"{args.domain}: {error}") from None
        notes = []
        for finding in (*single, *warnings):
            notes.append((finding.rule, f"warning: {crosscheck.message(finding)}"))
        for note in result.left_out:
            notes.append((note.omission.value, f"left out: {note.text}"))
        queues = queue_total.of_domain(parsing.parse_tree(result.xml))
        if queues.is_large:
            notes.append(("many_queues", f"warning: {queues.text}"))
        if not wanted:
            notes.append(
                (
                    "no_request",
                    "neither options nor the metadata have a request: the XML is unchanged",
                )
            )
        if args.format == "json":
            shown = [{"code": code, "text": text} for code, text in notes]
            command.print_json({"xml": result.xml, "notes": shown})
            return
        if isinstance(sys.stdout, io.TextIOWrapper):
            sys.stdout.reconfigure(
                errors="xmlcharrefreplace"
            )  # XML stays the same XML on an ASCII stdout
        if args.diff:
            path = printable(args.domain)
            before = transform.text(parsing.parse_xml(data)).splitlines(True)
            after = transform.text(parsing.parse_xml(result.xml)).splitlines(True)
            sys.stdout.writelines(map(_shown, _diff(before, after, path)))
        else:
            sys.stdout.write(_shown(result.xml))
        for _code, text in notes:
            print(printable(text), file=sys.stderr)


def _device_nodes(data: bytes, wanted: request.Request) -> dict[str, int]:
    """Return PCI address -> NUMA node of the devices that are passed through, by this machine."""
    if wanted.pci_topology != "numa":
        return {}
    return devices.read_nodes(Root(), pci_topology.addresses(parsing.parse_tree(data)))


def _diff(before: Sequence[str], after: Sequence[str], path: str) -> Iterator[str]:
    """Yield a unified diff of lines.

    Where more lines than are compared lie between the first and the last change, all of them are
    one change.
    """
    if before == after:
        return
    start = _common(before, after)
    rest_before, rest_after = before[start:], after[start:]
    end = _common(rest_before[::-1], rest_after[::-1])
    head, tail = min(start, _CONTEXT), min(end, _CONTEXT)
    skipped = start - head
    old = before[skipped : len(before) - end + tail]
    new = after[skipped : len(after) - end + tail]
    if max(len(old), len(new)) <= _MOST_COMPARED:
        groups = list(difflib.SequenceMatcher(None, old, new).get_grouped_opcodes(_CONTEXT))
    else:
        old_end, new_end = len(old) - tail, len(new) - tail
        whole = [
            ("equal", 0, head, 0, head),
            ("replace", head, old_end, head, new_end),
            ("equal", old_end, len(old), new_end, len(new)),
        ]
        groups = [whole]
    yield f"--- {path}\n"
    yield f"+++ {path} (tuned)\n"
    for group in groups:
        _tag, old_first, _old_end, new_first, _new_end = group[0]
        _tag, _old_first, old_last, _new_first, new_last = group[-1]
        old_range = f"{skipped + old_first + 1},{old_last - old_first}"
        new_range = f"{skipped + new_first + 1},{new_last - new_first}"
        yield f"@@ -{old_range} +{new_range} @@\n"
        for tag, old_from, old_to, new_from, new_to in group:
            if tag == "equal":
                yield from (f" {line}" for line in old[old_from:old_to])
            else:
                yield from (f"-{line}" for line in old[old_from:old_to])
                yield from (f"+{line}" for line in new[new_from:new_to])


def _common(before: Sequence[str], after: Sequence[str]) -> int:
    """Return how many lines both begin with."""
    count = 0
    for old, new in zip(before, after, strict=False):
        if old != new:
            break
        count += 1
    return count


def _shown(xml: str) -> str:
    """Return XML with a reference for each character that a terminal would obey; it stays the same document."""
    lines = xml.replace("\r\n", "\n").replace("\r", "\n")  # as every parser of XML reads them
    shown = []
    for char in lines:
        if char.isprintable() or char in "\n\t":
            shown.append(char)
        else:
            shown.append(f"&#{ord(char)};")
    return "".join(shown)


def _request(
    guest: Domain,
    specs: Mapping[str, str],
    properties: Mapping[str, str],
    known: Mapping[str, profiles.Profile],
) -> tuple[request.Request, list[Finding]]:
    """Return the request of the options, else of the domain; and how its specs fit together.

    :raises crosscheck.ContradictionError: the options ask for what the driver would refuse at
        build. What a domain carries already is only warned of: it was booted so.
    """
    metadata = guest.specs
    extra, image = dict(metadata.extra_specs), dict(metadata.image_properties)
    native = {key: text for key, text in extra.items() if not key.startswith(vocabulary.PREFIX)}
    if specs or properties:
        extra = {**native, **specs}
        image = {
            key: text for key, text in image.items() if not key.startswith(vocabulary.IMAGE_PREFIX)
        }
        image |= properties
    elif metadata.expanded is not None:
        extra = native
    image, unusable = spec_parsing.usable_properties(extra, image)
    if metadata.expanded is not None and not (specs or properties):
        wanted = spec_parsing.parse_expanded(metadata.expanded)
    else:
        wanted = spec_parsing.parse(extra, image, known)
    # Of a domain that Nova did not make nothing is known of hw:* specs.
    of_nova = bool(native) or any(key.startswith(vocabulary.NATIVE_PREFIX) for key in specs)
    results = crosscheck.findings(wanted, extra, image, guest.vcpus, native=of_nova)
    if specs:
        crosscheck.refuse(results)
    return wanted, [*crosscheck.unusable_properties(unusable), *results]
