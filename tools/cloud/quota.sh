# SPDX-License-Identifier: Apache-2.0
# A limit on the CPU time of each guest that a libvirt daemon starts: groups of the kernel's cpu controller, of cgroup
# v1 or v2. Sourced.
#
#   quota_find              finds the controller; fails where there is none that can be written
#   quota_take NAME PID     makes a group without a limit, and moves the daemon there; its guests start in it
#   quota_set PERCENT       each guest that runs gets a group of its own, with so much of one CPU; later ones have no limit
#   quota_drop              moves everything back and removes the groups; may be called at any time
# shellcheck shell=bash
quota_mount='' quota_kind='' quota_group=''

quota_find() {
    local device mount kind options
    while read -r device mount kind options _; do
        case $kind in
            cgroup) [[ ,$options, == *,cpu,* ]] || continue ;;
            cgroup2) [[ $quota_kind != cgroup && " $(cat "$mount/cgroup.controllers") " == *" cpu "* ]] || continue ;;
            *) continue ;;
        esac
        quota_mount=$mount quota_kind=$kind
    done <"${NOVA_PERF_MOUNTS:-/proc/self/mounts}"
    [[ -n $quota_kind && -w $quota_mount/cgroup.procs ]] || return 1
    [[ $quota_kind == cgroup || " $(cat "$quota_mount/cgroup.subtree_control") " == *" cpu "* ]] ||
        echo +cpu 2>/dev/null >"$quota_mount/cgroup.subtree_control"
}

quota_take() {
    quota_group=$quota_mount/$1
    mkdir -p "$quota_group"
    echo "$2" >"$quota_group/cgroup.procs"
}

quota_set() {
    local pid group
    while read -r pid; do
        [[ $(cat "/proc/$pid/comm" 2>/dev/null) == qemu-system-* ]] || continue
        group=$quota_group.$pid
        mkdir -p "$group"
        if [[ $quota_kind == cgroup2 ]]; then
            echo "$(($1 * 1000)) 100000" >"$group/cpu.max"
        else
            echo 100000 >"$group/cpu.cfs_period_us"
            echo $(($1 * 1000)) >"$group/cpu.cfs_quota_us"
        fi
        echo "$pid" 2>/dev/null >"$group/cgroup.procs" || true # it may have ended
    done <"$quota_group/cgroup.procs"
}

quota_drop() {
    local deadline=$((SECONDS + 60)) pid group left
    [[ -n $quota_group ]] || return 0
    # What ends takes a moment to leave, on a busy machine many seconds, and what starts may come.
    while :; do
        left=''
        for group in "$quota_group" "$quota_group".*; do
            [[ -d $group ]] || continue
            while read -r pid; do echo "$pid" 2>/dev/null >"$quota_mount/cgroup.procs" || true; done <"$group/cgroup.procs"
            rmdir "$group" 2>/dev/null || left=$group
        done
        [[ -n $left ]] || return 0
        ((SECONDS < deadline)) || break
        sleep 0.1
    done
    echo "${0##*/}: $left cannot be removed" >&2
    return 1
}
