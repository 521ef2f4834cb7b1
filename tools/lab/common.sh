# SPDX-License-Identifier: Apache-2.0
# What the lab's commands share; not to be run.
# shellcheck shell=bash

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
cache=${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning}
state=${NOVA_PERF_LAB:-/run/nova-perf-lab}
name=$(basename "$0")

fail() {
    echo "lab/$name: $*" >&2
    exit 3
}

usage() { sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; }

say() { printf '== %4d s  %s\n' "$SECONDS" "$*" >&2; }

running() { [[ -e $state/pid && $(tr '\0' ' ' <"/proc/$(cat "$state/pid")/cmdline" 2>/dev/null) == *"$state/"* ]]; }

# One connection for all commands: setting one up takes the emulated host half a second.
lab_ssh() {
    ip netns exec "$(cat "$state/netns")" ssh -q -i "$(cat "$state/key")" -o StrictHostKeyChecking=no \
        -o UserKnownHostsFile=/dev/null -o ConnectTimeout=5 -o ServerAliveInterval=15 -o ControlMaster=auto \
        -o ControlPath="$state/ssh-%p" -o ControlPersist=600 -p 2222 root@127.0.0.1 "$@"
}

# One command to QEMU's human monitor; prints its answer.
monitor() {
    printf '%s\n' "$*" | socat -t "${monitor_s:-60}" - "unix-connect:$state/mon.sock" | sed '1d;/^(qemu)/d'
}
