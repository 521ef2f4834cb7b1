# SPDX-License-Identifier: Apache-2.0
"""The vocabulary as Glance metadata definitions, which Horizon and ``openstack image metadef`` show.

Two namespaces, since one property cannot be ``perf:vif_host_offload.csum`` on a flavor and
``hw_perf_vif_host_offload_csum`` on an image. The JSON files in ``metadefs/`` are these
definitions in the form that ``glance-manage db_load_metadefs`` reads; run as a program, this
module writes them.
"""

import json
import pathlib
from collections.abc import Mapping
from typing import Any, Final, TypeAlias

from nova_perf_tuning.specs import vocabulary

#: A namespace, or an object in it, as Glance's schema has it.
Namespace: TypeAlias = dict[str, Any]
_PUBLIC: Final = {"visibility": "public", "protected": False}
#: Where the JSON files are.
DIRECTORY: Final = pathlib.Path(__file__).with_suffix("")
_TITLE_WORDS: Final = {
    "vif": "network interface",
    "rx": "receive",
    "tx": "transmit",
    "irq": "interrupt",
    "pci": "PCI",
    "iothreads": "I/O threads",
}


def namespaces() -> Mapping[str, Namespace]:
    """Return file name -> namespace with its properties, in the form of Glance's schema."""
    flavor, image = vocabulary.PREFIX, vocabulary.IMAGE_PREFIX
    return {
        "compute-perf-tuning.json": {
            "namespace": "OS::Compute::PerfTuning",
            "display_name": "Performance tuning",
            "description": "What a flavor requests for its guests' queues, I/O threads, balloon "
            "and host threads, and for the host's overhead.",
            **_PUBLIC,
            "resource_type_associations": [{"name": "OS::Nova::Flavor", "prefix": flavor}],
            "properties": {
                key.removeprefix(flavor): _property(*entry)
                for key, entry in vocabulary.BY_KEY.items()
            },
        },
        "compute-perf-tuning-image.json": {
            "namespace": "OS::Compute::PerfTuningImage",
            "display_name": "Performance tuning for images",
            "description": "What an image may request for its guests' queues, rings, offloads, "
            "I/O threads and balloon. The flavor wins.",
            **_PUBLIC,
            "resource_type_associations": [
                {"name": "OS::Glance::Image", "prefix": image},
                {"name": "OS::Cinder::Volume", "prefix": image, "properties_target": "image"},
            ],
            "properties": {
                key.removeprefix(image): _property(*vocabulary.BY_KEY[own])
                for key, own in vocabulary.BY_IMAGE_PROPERTY.items()
            },
        },
    }


def text(namespace: Namespace) -> str:
    """Return the contents of a namespace's file."""
    return json.dumps(namespace, indent=4, ensure_ascii=False) + "\n"


def _property(spec: vocabulary.Spec, feature: str | None) -> Namespace:
    words = " ".join(_TITLE_WORDS.get(word, word) for word in spec.name.split("_"))
    title = words[0].upper() + words[1:] + (f": {feature}" if feature else "")
    return {
        "title": title,
        "description": f"{spec.description} Default: {spec.default}.",
        **spec.schema(),
    }


if __name__ == "__main__":
    for file, entry in namespaces().items():
        (DIRECTORY / file).write_text(text(entry), encoding="utf-8")
