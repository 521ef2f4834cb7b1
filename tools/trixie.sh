#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs parts of tools/test.sh in Debian 13, made of its packages: libvirt 11, QEMU 10, Python 3.13, systemd 257.
#
#   tools/trixie.sh [PART [REGEX]]   as for tools/test.sh; without a part: unit, functional and nova
#   tools/trixie.sh --shell          a shell in it, in the tree
#
# As root, on Debian 12 or newer. The root is made once and kept in
# ${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-~/.cache}/nova-perf-tuning}/trixie-HASH, with what the tests have installed there;
# HASH is of how it is made. It is entered with mounts and processes of its own, which end with the command. The network,
# /sys and the kernel are those of this machine. The tree is a clone of the commit that is checked out.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning}
tree=/srv/nova-perf-tuning

fail() {
    echo "trixie.sh: $*" >&2
    exit 3
}
case ${1:-} in
    -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
esac
((EUID == 0)) || fail "run it as root: it makes a root file system and enters it"
command -v mmdebstrap >/dev/null || fail "mmdebstrap is missing; tools/prepare.sh --profile lab installs it"
sources=$(cat /etc/apt/sources.list.d/debian.sources 2>/dev/null) || fail "needs Debian's /etc/apt/sources.list.d/debian.sources"

make_root() {
    echo "== a root of Debian 13 in $root"
    work=$(mktemp -d "$cache/trixie-work.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    echo "${sources//bookworm/trixie}" >"$work/trixie.sources"
    mmdebstrap --quiet --mode=root --variant=apt --skip=cleanup/apt --aptopt='Apt::Install-Recommends "false"' \
        --aptopt='Acquire::Languages "none"' --dpkgopt=force-unsafe-io \
        --include=ca-certificates,git,python3,python3-venv,procps,util-linux \
        trixie "$work/root" "$work/trixie.sources" >"$work/log" 2>&1 ||
        { tail -n 20 "$work/log" >&2; fail "mmdebstrap of Debian 13 failed"; }
    printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d" # nothing starts when it is installed
    chmod 755 "$work/root/usr/sbin/policy-rc.d"
    mkdir -p "$work/root$tree"
    mv "$work/root" "$root"
    rm -rf "$work"
    trap - EXIT
}

mkdir -p "$cache"
root=$cache/trixie-$(sed -n '/^make_root()/,/^}/p' "$0" | sha256sum | cut -c 1-16)
exec 9>"$cache/trixie.lock"
flock 9 # one at a time: both would install packages
[[ -d $root ]] || make_root

# A new tree each time, but for the environment, which knows itself whether it still fits.
rm -rf "$root$tree.new"
git -c safe.directory="$top" clone -q "$top" "$root$tree.new"
[[ ! -d $root$tree/.venv ]] || mv "$root$tree/.venv" "$root$tree.new/.venv"
rm -rf "${root:?}$tree"
mv "$root$tree.new" "$root$tree"

run=("${@:-}")
if [[ ${1:-} == --shell ]]; then
    command='exec bash'
elif (($#)); then
    command='exec tools/test.sh "$@"'
else
    # shellcheck disable=SC2016  # of the inner shell
    command='code=0; for part in unit functional nova; do tools/test.sh "$part" || code=1; done; exit "$code"'
fi
# Certificates and pip's settings of this machine serve there, too.
# shellcheck disable=SC2016  # of the inner shell
exec unshare --mount --pid --fork --kill-child --propagation private bash -ec '
    root=$1 tree=$2 command=$3
    shift 3
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    mount -t tmpfs -o mode=755 tmpfs "$root/run"
    mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
    mount --bind /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/ca-certificates.crt"
    if [[ -e /etc/pip.conf ]]; then
        touch "$root/etc/pip.conf"
        mount --bind /etc/pip.conf "$root/etc/pip.conf"
    fi
    exec chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        LANG=C.UTF-8 TERM="${TERM:-dumb}" bash -c "cd $tree && $command" trixie "$@"
' trixie "$root" "$tree" "$command" "${run[@]}" 9>&-
