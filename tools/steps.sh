# SPDX-License-Identifier: Apache-2.0
# What demonstrations share; sourced: wrong options, and steps with time spent and left. The caller sets `expected`,
# the seconds that each step took when it was written.
# shellcheck shell=bash
refuse() {
    echo "${0##*/}: $*" >&2
    exit 3
}

# needs OPTION [VALUE...] WHAT: refuses an option that stands at the end.
needs() {
    (($# > 2)) && [[ -n $2 ]] || refuse "$1 needs ${*: -1}"
}

# seconds OPTION TIME LEAST: a time as "nova-perf validate" takes it, in seconds.
seconds() {
    local -A unit=([s]=1 [m]=60 [h]=3600)
    [[ $2 =~ ^([0-9]{1,6})([smh]?)$ ]] && (($((10#${BASH_REMATCH[1]})) * ${unit[${BASH_REMATCH[2]:-s}]} >= $3)) ||
        refuse "$1 '$2': give $3s or more, such as 30s, 8m or 1h"
    echo $((10#${BASH_REMATCH[1]} * ${unit[${BASH_REMATCH[2]:-s}]}))
}

known_profile() {
    local directory=$2/nova_perf_tuning/specs/profiles
    [[ $1 =~ ^[a-z0-9-]+$ && -f $directory/$1.yaml ]] ||
        refuse "there is no profile '$1'; profiles are $(basename -s .yaml -a "$directory"/*.yaml | paste -sd' ')"
}

begun=$SECONDS
step=0
next() {
    local left=0 index
    for ((index = step; index < ${#expected[@]}; index++)); do left=$((left + expected[index])); done
    step=$((step + 1))
    printf '\n\033[1m[%d/%d] %s\033[0m  (%d s so far, about %d s left)\n' \
        "$step" "${#expected[@]}" "$1" $((SECONDS - begun)) "$left"
}
