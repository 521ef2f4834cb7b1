# SPDX-License-Identifier: Apache-2.0
# A limit on the CPU time of a process and of all that it starts: a group of the kernel's cpu controller, of cgroup v1
# or v2. Sourced.
#
#   quota_find              finds the controller; fails where there is none that can be written
#   quota_take NAME PID     makes the group, and moves the process there
#   quota_set PERCENT       of one CPU, for all of them together; none: no limit
#   quota_drop              moves everything back and removes the group; may be called at any time
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
    if [[ $quota_kind == cgroup2 ]]; then
        echo "$([[ $1 == none ]] && echo max || echo $(($1 * 1000))) 100000" >"$quota_group/cpu.max"
    else
        echo 100000 >"$quota_group/cpu.cfs_period_us"
        { [[ $1 == none ]] && echo -1 || echo $(($1 * 1000)); } >"$quota_group/cpu.cfs_quota_us"
    fi
}

quota_drop() {
    local attempt pid
    [[ -d $quota_group ]] || return 0
    # What ends takes a moment to leave, and what starts may come.
    for ((attempt = 0; attempt < 50; attempt++)); do
        while read -r pid; do echo "$pid" 2>/dev/null >"$quota_mount/cgroup.procs" || true; done <"$quota_group/cgroup.procs"
        ! rmdir "$quota_group" 2>/dev/null || return 0
        sleep 0.1
    done
    echo "${0##*/}: $quota_group cannot be removed" >&2
    return 1
}
