#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes heat/flavors.yaml, every shipped profile as a flavor, from nova_perf_tuning/specs/profiles.

    tools/heat_flavors.py            writes it
    tools/heat_flavors.py --check    exit code 1 when it is stale

A test runs the check, so a profile cannot change without its flavor.
"""

import json
import pathlib
import sys

TOP = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(TOP))

from nova_perf_tuning.specs import profiles  # noqa: E402

TARGET = TOP / "nova_perf_tuning" / "validation" / "heat" / "templates" / "flavors.yaml"

HEAD = """\
# SPDX-License-Identifier: Apache-2.0
heat_template_version: 2021-04-16

# Made by tools/heat_flavors.py out of nova_perf_tuning/specs/profiles; edit those.

description: >
  Every shipped profile of nova-perf-tuning as a flavor. perf:profile brings the perf:* specs; Nova's own hw:* ones
  stand in the flavor, since Nova reads them there. Needs the rights of an administrator.

parameters:
  name_prefix:
    type: string
    label: Beginning of the names
    description: The flavor of profile "balanced" is called perf-balanced when this is "perf-".
    default: perf-
    constraints:
      - allowed_pattern: "[A-Za-z0-9_. -]{0,100}"
        description: Letters, digits, '_', '.', '-' and spaces.
  vcpus:
    type: number
    label: vCPUs
    description: vCPUs of every flavor.
    default: 2
    constraints:
      - range: {min: 1, max: 1024}
  ram:
    type: number
    label: Memory in MiB
    description: Memory of every flavor.
    default: 2048
    constraints:
      - range: {min: 128, max: 16777216}
  disk:
    type: number
    label: Disk in GiB
    description: Root disk of every flavor; 0 means the image's own size, which Nova reserves to administrators.
    default: 10
    constraints:
      - range: {min: 0, max: 65536}
  is_public:
    type: boolean
    label: For all projects
    description: false keeps the flavors to this project.
    default: true

conditions:
  private: {not: {get_param: is_public}}

resources:
"""


def resource(profile):
    """Return one flavor resource; values are written as JSON, which YAML is a superset of."""
    specs = {"perf:profile": profile.name}
    specs |= {
        key: spec.value for key, spec in sorted(profile.specs.items()) if key.startswith("hw:")
    }
    lines = [
        f"  {profile.name.replace('-', '_')}:",
        "    type: OS::Nova::Flavor",
        "    properties:",
        f'      name: {{list_join: ["", [{{get_param: name_prefix}}, {json.dumps(profile.name)}]]}}',
        "      vcpus: {get_param: vcpus}",
        "      ram: {get_param: ram}",
        "      disk: {get_param: disk}",
        "      is_public: {get_param: is_public}",
        '      tenants: {if: [private, [{get_param: "OS::project_id"}], []]}',
        "      extra_specs:",
    ]
    lines += [f"        {json.dumps(key)}: {json.dumps(value)}" for key, value in specs.items()]
    return "\n".join(lines) + "\n"


def text():
    """Return the whole template."""
    found = sorted(profiles.shipped().values(), key=lambda profile: profile.name)
    outputs = [
        "\noutputs:",
        "  flavors:",
        "    description: Profile and id of its flavor.",
        "    value:",
    ]
    outputs += [
        f"      {entry.name}: {{get_resource: {entry.name.replace('-', '_')}}}" for entry in found
    ]
    return HEAD + "\n".join(resource(entry) for entry in found) + "\n".join(outputs) + "\n"


def main():
    if sys.argv[1:] == ["--check"]:
        if not TARGET.exists() or TARGET.read_text(encoding="utf-8") != text():
            sys.exit(f"{TARGET.relative_to(TOP)} is stale; run tools/heat_flavors.py")
    elif sys.argv[1:]:
        sys.exit(__doc__)
    else:
        TARGET.write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
