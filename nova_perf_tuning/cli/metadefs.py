"""``nova-perf metadefs show`` and ``load``: the extra specs as Glance metadata definitions."""

from __future__ import annotations

import argparse
import logging
import os
from collections.abc import Iterable, Mapping
from typing import Any

from nova_perf_tuning import errors
from nova_perf_tuning.budget import store
from nova_perf_tuning.cli import command
from nova_perf_tuning.metadefs import definitions


class MetadefsShow(command.PerfCommand):
    """Show the metadata definitions of all extra specs, or write them as files."""

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--write",
            metavar="DIR",
            help="write each namespace to DIR as a JSON file, which 'glance-manage db_load_metadefs DIR' reads",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        namespaces = definitions.namespaces()
        if args.write is not None:
            for name, namespace in namespaces.items():
                store.write_atomically(os.path.join(args.write, name), definitions.text(namespace))
        if args.format == "json":
            command.print_json({"namespaces": list(namespaces.values())})
        else:
            _print_table(namespaces.values())
        return int(errors.ExitCode.PASS)


class MetadefsLoad(command.PerfCommand):
    """Create or update the metadata definitions in a cloud's Glance, so that Horizon shows them.

    A second run changes nothing. Properties of these namespaces that are not ours any more are removed. Who
    runs it needs Glance's role for metadata definitions (admin, unless policy says otherwise).
    """

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--os-cloud",
            metavar="NAME",
            default=os.environ.get("OS_CLOUD"),
            help="cloud of clouds.yaml (default: OS_CLOUD, else what OS_AUTH_URL and its like say)",
        )

    def run_command(self, args: argparse.Namespace) -> int:
        # Only the extra "cloud" brings what this needs.
        import openstack
        from keystoneauth1 import exceptions as auth_exceptions

        from nova_perf_tuning.cloud import api, faults, model

        # What it warns of comes with the error as well.
        logging.getLogger("keystoneauth").setLevel(logging.ERROR)
        try:
            with api.connect(args.os_cloud) as connection:
                done = [_load(connection.image, namespace) for namespace in definitions.namespaces().values()]
        except (openstack.exceptions.SDKException, auth_exceptions.ClientException) as error:
            cloud = f"cloud {args.os_cloud}" if args.os_cloud else "cloud of the OS_* variables"
            raise model.CloudError(f"{cloud}: {faults.line(error)}") from None
        if args.format == "json":
            command.print_json({"namespaces": done})
        else:
            for row in done:
                name, *counts = row.items()
                print(f"{name[1]}: {', '.join(f'{count} {what}' for what, count in counts if count)}")
        return int(errors.ExitCode.PASS)


def _load(image: Any, namespace: Mapping[str, Any]) -> dict[str, Any]:
    """Bring one namespace in Glance to what it should be; return its name and counts of what was done."""
    from openstack import exceptions

    name = namespace["namespace"]
    own = {key: namespace[key] for key in ("display_name", "description", "visibility")}
    done = {"created": 0, "updated": 0, "removed": 0, "unchanged": 0}
    try:
        found = image.get_metadef_namespace(name)
        if any(getattr(found, key) != value for key, value in own.items()):
            # By name, for the SDK sends only what differs from an object that it has fetched, and Glance takes
            # what is left out for its default. Whether it is protected belongs to the operator.
            image.update_metadef_namespace(name, is_protected=found.is_protected, **own)
            done["updated"] += 1
        else:
            done["unchanged"] += 1
    except exceptions.NotFoundException:
        image.create_metadef_namespace(namespace=name, is_protected=namespace["protected"], **own)
        done["created"] += 1
    present = {entry.name: entry for entry in image.metadef_resource_type_associations(name)}
    for wanted in namespace["resource_type_associations"]:
        entry = present.get(wanted["name"])
        if entry is not None and entry.prefix == wanted["prefix"]:
            done["unchanged"] += 1
            continue
        if entry is not None:
            image.delete_metadef_resource_type_association(entry, name)
        image.create_metadef_resource_type_association(name, **wanted)
        done["created"] += 1
    known = {entry.name: entry for entry in image.metadef_properties(name)}
    for key, wanted in namespace["properties"].items():
        if key not in known:
            image.create_metadef_property(name, name=key, **wanted)
            done["created"] += 1
        elif any(getattr(known[key], part) != wanted.get(part) for part in definitions.PROPERTY_KEYS):
            image.update_metadef_property(known[key], name, name=key, **wanted)
            done["updated"] += 1
        else:
            done["unchanged"] += 1
    for key in known.keys() - namespace["properties"].keys():
        image.delete_metadef_property(known[key], name)
        done["removed"] += 1
    return {"namespace": name, **done}


def _print_table(namespaces: Iterable[Mapping[str, Any]]) -> None:
    for namespace in namespaces:
        kinds = ", ".join(entry["name"] for entry in namespace["resource_type_associations"])
        print(f"{namespace['namespace']} ({kinds})")
        prefix = namespace["resource_type_associations"][0]["prefix"]
        rows = [(prefix + key, entry["type"], _allowed(entry)) for key, entry in namespace["properties"].items()]
        command.print_table(("  property", "type", "allowed"), [(f"  {key}", *rest) for key, *rest in rows])
        print()


def _allowed(entry: Mapping[str, Any]) -> str:
    if "enum" in entry:
        return ", ".join(entry["enum"])
    if "minimum" in entry:
        return f"{entry['minimum']} to {entry['maximum']}"
    return str(entry.get("pattern", "true, false"))
