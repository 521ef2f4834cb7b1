#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Changes one place of the code at a time and shows which changes no unit test sees. Takes an hour at most.
#
#   tools/mutate.sh [--seed N] [--count N] [MODULE...]
#
# Draws COUNT mutants (default: 200) of the modules in tools/mutation/run.py by SEED (default: 1), and runs the unit
# tests of each one's module. Prints the mutants that survive with their differences, and the totals. With the names
# of modules (host/plan/nics.py) only those of the drawn mutants that are in them. The code is changed in a
# temporary copy of the tree. cosmic-ray is installed into an environment of its own; both are removed at the end.
# The tests run in the environment ${VENV:-.venv}, which tools/prepare.sh --extras validation,libvirt,test,cloud,agent makes.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    exit 0
fi
python=${VENV:-$top/.venv}/bin/python
if ! "$python" -c 'import testtools, hypothesis' 2>/dev/null; then
    echo "mutate.sh: $python cannot run the tests; first run tools/prepare.sh --extras validation,libvirt,test,cloud,agent" >&2
    exit 3
fi
if ((EUID == 0)) && [[ -z ${NOVA_PERF_MUTATE_INSIDE:-} ]]; then
    # A mutant of host/privileged.py writes where it should not: for root the kernel's files are read-only.
    # shellcheck disable=SC2016 # for the inner shell
    NOVA_PERF_MUTATE_INSIDE=1 exec unshare --mount bash -ec '
        for place in /proc/sys /proc/irq /sys; do
            mount --bind "$place" "$place"
            mount -o remount,bind,ro "$place"
        done
        exec "$@"' bash "${BASH_SOURCE[0]}" "$@"
fi
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-mutate.XXXXXX")
running=''
finish() {
    if [[ -n $running ]] && kill "$running" 2>/dev/null; then
        wait "$running" || true
    fi
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 130' INT TERM HUP

mkdir "$work/tree" "$work/tmp"
git -C "$top" -c safe.directory="$top" ls-files -z --cached --others --exclude-standard |
    tar -C "$top" --null --files-from - --ignore-failed-read --create 2>/dev/null | tar -C "$work/tree" --extract
# shellcheck source=tools/python_packages.sh
. "$top/tools/python_packages.sh"
"$python" -m venv "$work/venv"
choose_installer "$work/venv"
install_packages "$work/venv" -q -r "$top/tools/mutation/requirements.txt"
cd "$work/tree"
# Whatever a mutant allocates in an endless loop ends at 16 GB.
ulimit -v $((16 << 20))
TMPDIR=$work/tmp PYTHONDONTWRITEBYTECODE=1 PYTHONPATH=$work/tree \
    "$work/venv/bin/python" tools/mutation/run.py --tests-by "$python" "$@" &
running=$!
wait "$running"
