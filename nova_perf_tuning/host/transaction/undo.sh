#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Puts back what nova-perf has changed on this host, last written first, and needs nothing of nova-perf.
#
#   sh undo.sh            leaves alone what another program has changed since
#   sh undo.sh --force    puts that back as well
#
# Exit code: 0 all is as it was; 1 something was left alone or failed; 3 it did not begin.
# It takes a POSIX shell, cat, grep, id, rm and sed; for threads taskset, for rings ethtool, for irqbalance pkill.
set -u -f
root='' state=''
LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin
export LC_ALL PATH
force=
case ${1-} in
    '') ;;
    --force) force=1 ;;
    *) echo "usage: sh ${0##*/} [--force]" >&2; exit 3 ;;
esac
if [ -z "$root" ] && [ "$(id -u)" != 0 ]; then
    echo "run this as root" >&2
    exit 3
fi
agent=
if [ -r "$state/agent.lock" ]; then
    read -r agent <"$state/agent.lock" || agent=
    case $agent in '' | *[!0-9]*) agent= ;; esac
fi
if [ -n "$agent" ] && [ -z "$root" ] && grep -q nova.perf "/proc/$agent/cmdline" 2>/dev/null; then
    echo "nova-perf-agent (process $agent) runs and would write again: systemctl stop nova-perf-agent" >&2
    exit 3
fi
now=$(cat "$root/proc/sys/kernel/random/boot_id" 2>/dev/null)
put=0 already=0 left=0 failed=0 gone=0 earlier=0

say() { printf '%s: %s\n' "$1" "$2"; }
left_alone() {
    left=$((left + 1))
    say "$1" "left alone: it holds $2, which we did not write; --force puts $3 back"
}
not_done() {
    failed=$((failed + 1))
    say "$1" "$2"
}
is_gone() { gone=$((gone + 1)); }

# of_boot BOOT: whether entries of this boot of the host are in force; "any": they outlive each.
of_boot() {
    [ "$1" = any ] && return 0
    [ "$1" = "$now" ] && return 0
    earlier=$((earlier + 1))
    return 1
}

# normal FORM VALUE sets $normal: what values of one meaning have in common.
normal() {
    normal=$2
    case $1 in
        mask)
            rest=$normal normal=
            while :; do
                case $rest in
                    *,*) normal=$normal${rest%%,*} rest=${rest#*,} ;;
                    *) break ;;
                esac
            done
            normal=$normal$rest
            while :; do
                case $normal in
                    0?*) normal=${normal#0} ;;
                    *) break ;;
                esac
            done
            ;;
        choice)
            case $normal in
                *\[*\]*)
                    normal=${normal#*\[}
                    normal=${normal%%\]*}
                    ;;
            esac
            ;;
        words)
            # shellcheck disable=SC2086 # words are wanted, and set -f is in force
            set -- $normal
            normal=$*
            ;;
    esac
}

# decide FORM NAME NOW ORIGINAL OURS...: 0: it is to be put back.
decide() {
    form=$1 name=$2 holds=$3 original=$4
    shift 4
    normal "$form" "$holds"
    current=$normal
    normal "$form" "$original"
    if [ "$current" = "$normal" ]; then
        already=$((already + 1))
        return 1
    fi
    [ -z "$force" ] || return 0
    for ours; do
        normal "$form" "$ours"
        [ "$current" != "$normal" ] || return 0
    done
    left_alone "$name" "$holds" "$original"
    return 1
}

# done_if FORM NAME NOW ORIGINAL
done_if() {
    normal "$1" "$3"
    current=$normal
    normal "$1" "$4"
    if [ "$current" = "$normal" ]; then
        put=$((put + 1))
    else
        not_done "$2" "it holds $3, not the original $4"
    fi
}

# first_line FILE sets $line. A file of /proc/sys gives its value to the first read alone, and a shell reads by bytes.
first_line() {
    line=
    [ -r "$1" ] || return 1
    case $1 in
        */proc/sys/*) line=$(cat "$1" 2>/dev/null) ;;
        *) { IFS= read -r line <"$1"; } 2>/dev/null ;;
    esac
    [ -n "$line" ]
}

# file BOOT FORM PATH ORIGINAL OURS...
file() {
    of_boot "$1" || return 0
    form=$2 path=$root$3 original=$4
    shift 4
    seen=$path
    put_back "$@"
}

# asked BOOT FORM READS PATH ORIGINAL OURS...: READS, where it is there, has what was asked for, PATH what is in force.
asked() {
    of_boot "$1" || return 0
    form=$2 path=$root$4 original=$5 seen=$root$4
    [ -z "$3" ] || [ ! -e "$root$3" ] || seen=$root$3
    shift 5
    put_back "$@"
}

# put_back OURS...: the value that $seen shows and $path takes.
put_back() {
    first_line "$seen" || { is_gone; return 0; }
    decide "$form" "$path" "$line" "$original" "$@" || return 0
    text=$original
    [ -z "$root" ] || [ "$form" != choice ] || bracketed "$line" "$original"
    if { printf '%s\n' "$text" >"$path"; } 2>/dev/null; then
        [ -z "$root" ] || [ "$seen" = "$path" ] || printf '%s\n' "$text" >"$seen"
        first_line "$seen" || line=
        done_if "$form" "$path" "$line" "$original"
    else
        not_done "$path" "the kernel refused $original"
    fi
}

# bracketed LINE WORD sets $text: a recorded file that shows all choices, with WORD in brackets.
bracketed() {
    case $1 in *\[*\]*) ;; *) return 0 ;; esac
    text=''
    for choice in $1; do
        choice=${choice#\[}
        choice=${choice%\]}
        [ "$choice" != "$2" ] || choice="[$choice]"
        text="$text${text:+ }$choice"
    done
}

# same_device DEVICE IFINDEX: whether a network device is the one that was written to.
same_device() {
    [ -n "$2" ] || return 0
    first_line "$root/sys/class/net/$1/ifindex" || return 1
    [ "$line" = "$2" ]
}

# queue BOOT DEVICE IFINDEX PATH ORIGINAL OURS...
queue() {
    of_boot "$1" || return 0
    same_device "$2" "$3" || { is_gone; return 0; }
    shift 3
    file any mask "$@"
}

# irq BOOT NUMBER DEVICE HANDLERS ORIGINAL OURS...: an interrupt of this PCI device, with these handlers.
irq() {
    of_boot "$1" || return 0
    number=$2 device=$3 handlers=$4
    shift 4
    if [ -n "$device" ] && [ ! -e "$root/sys/bus/pci/devices/$device/msi_irqs/$number" ]; then
        is_gone
        return 0
    fi
    asked=$force
    # Of other handlers only what holds our value is ours: a new vector starts elsewhere.
    [ -z "$handlers" ] || has_handlers "$number" "$handlers" || force=
    file any text "/proc/irq/$number/smp_affinity_list" "$@"
    force=$asked
}

has_handlers() {
    ifs=$IFS
    IFS=,
    for handler in $2; do
        if [ ! -d "$root/proc/irq/$1/$handler" ]; then
            IFS=$ifs
            return 1
        fi
    done
    IFS=$ifs
}

# start_of TID sets $start: field 22 of its stat; the name before may hold blanks and parentheses.
start_of() {
    line=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    line=${line##*) }
    # shellcheck disable=SC2086 # words are wanted, and set -f is in force
    set -- $line
    [ $# -ge 20 ] || return 1
    shift 19
    start=$1
}

cpus_of() {
    line=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status" 2>/dev/null)
    [ -n "$line" ]
}

# thread BOOT TID START ORIGINAL OURS...
thread() {
    of_boot "$1" || return 0
    tid=$2 since=$3 original=$4
    shift 4
    if ! start_of "$tid" || [ "$start" != "$since" ] || ! cpus_of "$tid"; then
        is_gone
        return 0
    fi
    decide text "thread $tid" "$line" "$original" "$@" || return 0
    if taskset -pc "$original" "$tid" >/dev/null 2>&1 && cpus_of "$tid"; then
        done_if text "thread $tid" "$line" "$original"
    else
        not_done "thread $tid" "taskset (util-linux) refused $original"
    fi
}

# device_value READ DEVICE NAME sets $line: -g and -l show the largest first, -k one a line.
device_value() {
    case $1 in
        -k) line=$(ethtool -k "$2" 2>/dev/null | sed -n "s/^[[:space:]]*$3: \([a-z]*\).*/\1/p") ;;
        *)
            line=$(ethtool "$1" "$2" 2>/dev/null |
                sed -n "/^Current/,\$ s/^$3:[[:space:]]*\([0-9]*\).*/\1/p")
            ;;
    esac
    [ -n "$line" ]
}

# device BOOT READ WRITE DEVICE IFINDEX SHOWN NAME ORIGINAL OURS...
device() {
    of_boot "$1" || return 0
    how=$2 write=$3 device=$4 shown=$6 name=$7 original=$8
    same_device "$4" "$5" || { is_gone; return 0; }
    shift 8
    if ! device_value "$how" "$device" "$shown"; then
        not_done "$device $name" "ethtool $how does not show it"
        return 0
    fi
    wanted=$original what=$name
    decide text "$device $what" "$line" "$wanted" "$@" || return 0
    if ethtool "$write" "$device" "$what" "$wanted" >/dev/null 2>&1 &&
        device_value "$how" "$device" "$shown"; then
        done_if text "$device $what" "$line" "$wanted"
    else
        not_done "$device $what" "ethtool $write refused $wanted"
    fi
}

# whole BOOT PATH ORIGINAL OURS...: a configuration file, or the word absent.
whole() {
    of_boot "$1" || return 0
    path=$root$2 original=$3
    shift 3
    whole_now "$path"
    decide text "$path" "$line" "$original" "$@" || return 0
    if [ "$original" = absent ]; then
        rm -f "$path"
    else
        { printf '%s\n' "${original#text:}" >"$path"; } 2>/dev/null
    fi
    whole_now "$path"
    done_if text "$path" "$line" "$original"
}

whole_now() {
    line=absent
    [ ! -e "$1" ] || line=text:$(cat "$1")
}

# listed BOOT PATH ORIGINAL OURS...: the interrupts that irqbalance leaves alone, one a line.
listed() {
    of_boot "$1" || return 0
    before=$put
    whole "$@"
    [ "$put" = "$before" ] || [ -n "$root" ] || pkill -HUP -x irqbalance
}

# unknown KIND TARGET
unknown() { not_done "$1 $2" "only 'nova-perf restore' puts this back"; }

finish() {
    echo "$put restored, $already already original, $left left alone, $failed failed," \
        "$gone whose target is gone, $earlier from an earlier boot"
    [ "$left" = 0 ] && [ "$failed" = 0 ]
}
