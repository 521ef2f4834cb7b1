#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the Debian packages, reads them with lintian, installs them into a clean Debian 12 beside python3-nova, uses
# them there, and purges them: nothing may stay. As root.
#
#   tools/test_debian.sh VENV [OUTPUT]   VENV as for tools/test_package.sh; OUTPUT keeps packages and lists of files
set -euo pipefail

venv=$(cd "$1" && pwd)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-debian-test.XXXXXX")
trap 'rm -rf "$work"' EXIT
output=$work/output
[[ -z ${2:-} ]] || { mkdir -p "$2" && output=$(cd "$2" && pwd); }
root=$work/root

fail() {
    echo "test_debian.sh: $*" >&2
    exit 1
}

"$top/tools/build_debian.sh" "$venv" "$output"
# Not by --fail-on, which counts what debian/ overrides.
lintian --allow-root --display-info "$output"/*.changes >"$output/lintian" 2>&1 || fail "$(cat "$output/lintian")"
[[ ! -s $output/lintian ]] || fail "$(cat "$output/lintian")"

# What they depend on is part of the clean root, so that what they leave is seen.
own='^(python3-nova-perf-tuning|nova-perf-agent|python3-inotify-simple)$'
needed=$(for file in "$output"/*.deb; do dpkg-deb -f "$file" Depends; done | tr ',' '\n' |
    sed -E 's/[|(:].*//; s/ //g' | grep -vE "$own" | sort -u | paste -sd,)
mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt --aptopt='Apt::Install-Recommends "false"' \
    --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io --include="systemd,$needed" \
    --customize-hook="cd \"\$1/root\" && APT_CONFIG=\$MMDEBSTRAP_APT_CONFIG apt-get -q download python3-nova" \
    bookworm "$root" /etc/apt/sources.list.d/debian.sources >"$work/log" 2>&1 || fail "$(tail -n 20 "$work/log")"
cp "$output"/*.deb "$root/root/"

# A command in the root, with /proc and /sys, in namespaces that end with it.
inside() {
    # shellcheck disable=SC2016  # of the inner shell
    unshare --mount --pid --net --fork --kill-child sh -ec 'mount -t proc proc "$0/proc"
        mount --rbind --make-rslave /sys "$0/sys"
        exec chroot "$@"' "$root" "$root" /usr/bin/env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@"
}
# Everything but dpkg's own books, caches, logs, and what systemd-analyze writes.
files() {
    (cd "$root" && find . -xdev \( -path ./var/lib/dpkg -o -path ./var/log -o -path ./var/cache -o -path ./tmp \
        -o -path ./root/.cache -o -path ./run/systemd \) -prune -o -printf '%M %u:%g %p %l\n' | sort -k 3)
}
nova_files() { (cd "$root" && find usr/lib/python3/dist-packages/nova -type f ! -name '*.pyc' -exec sha256sum {} + | sort); }

# Only Nova's files matter here, not that it runs, so its dependencies are left out.
inside sh -c 'dpkg --force-depends --unpack /root/python3-nova_*.deb && rm /root/python3-nova_*.deb' >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
files >"$output/files.before"
nova_files >"$work/nova.before"
[[ $(wc -l <"$work/nova.before") -gt 500 ]] || fail "python3-nova was not unpacked"
inside sh -c 'dpkg --force-depends --install /root/*.deb' >"$work/log" 2>&1 || fail "$(cat "$work/log")"
files >"$output/files.installed"

inside nova-perf topology -f json >"$work/topology.json"
"$venv/bin/python" -c "import json, sys; assert json.load(open(sys.argv[1]))['cpus']" "$work/topology.json"
inside nova-perf explain --vcpus 4 --spec perf:profile=balanced >/dev/null
inside nova-perf plan -f json >/dev/null
inside nova-perf-agent --help >/dev/null
inside python3 -B -c "from importlib.util import find_spec as f; assert f('nova.virt.libvirt') and f('nova.virt.perf_tuning')"
for unit in nova-perf-agent nova-perf-agent-observe; do
    inside systemd-analyze verify --man=no "/lib/systemd/system/$unit.service" || fail "the unit $unit"
done
[[ ! -e $root/etc/systemd/system/multi-user.target.wants/nova-perf-agent.service ]] || fail "the agent is enabled"
[[ $(stat -c '%a %U' "$root/var/lib/nova-perf-tuning") == "755 root" ]] || fail "tmpfiles.d made no directory"
# What runs leave: configuration, journal, verdict.
touch "$root"/etc/nova-perf-tuning/nova-perf-tuning.conf "$root"/var/lib/nova-perf-tuning/verdict.json

inside dpkg --force-depends --remove nova-perf-agent python3-nova-perf-tuning python3-inotify-simple >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
[[ -e $root/etc/nova-perf-tuning/nova-perf-tuning.conf ]] || fail "removal without purge took the configuration"
inside dpkg --force-depends --purge nova-perf-agent python3-nova-perf-tuning python3-inotify-simple >"$work/log" 2>&1 ||
    fail "$(cat "$work/log")"
files >"$output/files.purged"
diff "$output/files.before" "$output/files.purged" >"$output/files.left" || fail "purge left $(cat "$output/files.left")"
nova_files | diff "$work/nova.before" - || fail "files of python3-nova have changed"
echo "lintian says nothing; $(diff "$output/files.before" "$output/files.installed" | grep -c '^>') files installed, none left"
