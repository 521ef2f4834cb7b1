#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages of the last commit with dpkg-buildpackage, on Debian 12 or later.
#
#   tools/build_debian.sh VENV OUTPUT   VENV as for tools/test_package.sh; bindep.txt, profile debian, has the packages
#
# The version is that of the last tag. Upstream's tarballs are the sdist and, since Debian 12 lacks it, inotify-simple.
set -euo pipefail

python=$(cd "$1" && pwd)/bin/python
mkdir -p "$2"
output=$(cd "$2" && pwd)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-debian.XXXXXX")
trap 'rm -rf "$work"' EXIT

"$python" "$top/tools/build_package.py" "$work/dist" >"$work/sums"
"$python" -m pip download -q --disable-pip-version-check --no-deps --no-binary :all: --require-hashes \
    -d "$work/inotify" -r "$top/debian/inotify-simple.txt"
sdist=$(find "$work/dist" -name '*.tar.gz')
version=$(basename "$sdist" .tar.gz)
# In Debian's order a development version comes before the release: 1.2.3.dev4 is 1.2.3~dev4.
version=$(sed -E 's/.*-//; s/\.0?(dev|rc|a|b)/~\1/' <<<"$version")
mkdir -p "$work/build/tree/inotify-simple"
cp "$sdist" "$work/build/nova-perf-tuning_$version.orig.tar.gz"
cp "$work"/inotify/*.tar.gz "$work/build/nova-perf-tuning_$version.orig-inotify-simple.tar.gz"
cd "$work/build/tree"
tar -xf "$sdist" --strip-components=1
tar -xf "$work"/inotify/*.tar.gz --strip-components=1 -C inotify-simple
when=$(git -c safe.directory="$top" -C "$top" log -1 --format=%cD)
sed -i -E "1s/\(.*\)/($version-0perf1)/; s/^( -- .*>  ).*/\1$when/" debian/changelog
# Debian's own Python, not one of /usr/local.
env -u PYTHONPATH -u PYTHONDONTWRITEBYTECODE -u SOURCE_DATE_EPOCH PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    dpkg-buildpackage -us -uc >"$work/log" 2>&1 ||
    { tail -n 60 "$work/log" >&2; echo "build_debian.sh: dpkg-buildpackage failed" >&2; exit 1; }
find "$work/build" -maxdepth 1 -type f -exec cp {} "$output/" \;
find "$output" -name "*_$version-0perf1_*.deb"
