#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the image of nova-perf-agent with buildah from Debian packages alone; no image is pulled. As root.
#
#   tools/build_container.sh DEBS [NAME]   DEBS: directory with the packages of tools/build_debian.sh;
#                                          NAME: localhost/nova-perf-agent:latest. Other options of buildah:
#                                          BUILDAH="buildah --storage-driver vfs"
set -euo pipefail

debs=$(cd "$1" && pwd)
name=${2:-localhost/nova-perf-agent:latest}
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-container.XXXXXX")
trap 'rm -rf "$work"' EXIT
read -ra buildah <<<"${BUILDAH:-buildah}"

# A repository of the packages, from which apt takes them with what they depend on.
mkdir "$work/debs" "$work/context"
cp "$debs"/*.deb "$work/debs/"
(cd "$work/debs" && dpkg-scanpackages -m . >Packages 2>"$work/log")
echo "deb [trusted=yes] copy:$work/debs ./" >"$work/own.list"
mmdebstrap --quiet --mode=root --variant=essential --aptopt='Apt::Install-Recommends "false"' \
    --aptopt='Acquire::Languages "none"' --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt=force-unsafe-io \
    --include=nova-perf-agent,python3-prometheus-client --customize-hook="rm -f \"\$1\"/etc/apt/sources.list.d/*own.list" \
    bookworm "$work/context/root.tar" /etc/apt/sources.list.d/debian.sources "$work/own.list" >"$work/log" 2>&1 ||
    { tail -n 20 "$work/log" >&2; echo "build_container.sh: mmdebstrap failed" >&2; exit 1; }
"${buildah[@]}" build --quiet --isolation chroot --timestamp "$(git -c safe.directory="$top" -C "$top" log -1 --format=%ct)" \
    --tag "$name" --file "$top/etc/containers/Containerfile" "$work/context"
