"""The vocabulary as Glance metadata definitions, which Horizon and ``openstack image metadef`` show.

Two namespaces, since one property cannot be ``perf:vif_host_offload.csum`` on a flavor and
``hw_perf_vif_host_offload_csum`` on an image. The JSON files in ``metadefs/`` are these definitions in the
form that ``glance-manage db_load_metadefs`` reads; run as a program, this module writes them.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from nova_perf_tuning.specs import vocabulary

#: A namespace, or an object in it, as Glance's schema has it.
Namespace: TypeAlias = dict[str, Any]
#: Where the JSON files are.
DIRECTORY: Final = pathlib.Path(__file__).with_suffix("")
_TITLE_WORDS: Final = {
    "vif": "network interface",
    "rx": "receive",
    "tx": "transmit",
    "irq": "interrupt",
    "iothreads": "I/O threads",
}


def namespaces() -> Mapping[str, Namespace]:
    """Return file name -> namespace with its properties, in the form of Glance's schema."""
    return {
        "compute-perf-tuning.json": _namespace(
            "OS::Compute::PerfTuning",
            "Performance tuning",
            "What a flavor asks of its guests' queues, I/O threads and host threads, and of the host's overhead.",
            [{"name": "OS::Nova::Flavor", "prefix": vocabulary.PREFIX}],
            {
                key.removeprefix(vocabulary.PREFIX): _property(spec, feature)
                for spec in vocabulary.VOCABULARY
                for key, _, feature in spec.keys()
            },
        ),
        "compute-perf-tuning-image.json": _namespace(
            "OS::Compute::PerfTuningImage",
            "Performance tuning for images",
            "What an image may ask of its guests' queues, rings, offloads and I/O threads. The flavor wins.",
            [
                {"name": "OS::Glance::Image", "prefix": vocabulary.IMAGE_PREFIX},
                {"name": "OS::Cinder::Volume", "prefix": vocabulary.IMAGE_PREFIX, "properties_target": "image"},
            ],
            {
                key.removeprefix(vocabulary.IMAGE_PREFIX): _property(spec, feature)
                for spec in vocabulary.VOCABULARY
                for _, key, feature in spec.keys()
                if key is not None
            },
        ),
    }


def text(namespace: Namespace) -> str:
    """Return the contents of a namespace's file."""
    return json.dumps(namespace, indent=4, ensure_ascii=False) + "\n"


def _namespace(
    name: str,
    display_name: str,
    description: str,
    resource_types: list[dict[str, str]],
    properties: dict[str, Namespace],
) -> Namespace:
    return {
        "namespace": name,
        "display_name": display_name,
        "description": description,
        "visibility": "public",
        "protected": False,
        "resource_type_associations": resource_types,
        "properties": properties,
    }


def _property(spec: vocabulary.Spec, feature: str | None) -> Namespace:
    words = " ".join(_TITLE_WORDS.get(word, word) for word in spec.name.split("_"))
    title = words[0].upper() + words[1:] + (f": {feature}" if feature else "")
    return {"title": title, "description": f"{spec.description} Default: {spec.default}.", **spec.schema()}


if __name__ == "__main__":
    for file, entry in namespaces().items():
        (DIRECTORY / file).write_text(text(entry), encoding="utf-8")
