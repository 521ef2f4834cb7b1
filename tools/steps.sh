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

begun=$SECONDS step=0 step_begun=$SECONDS
# Indexes of the steps whose length a clock or a download sets, and not the speed of this machine.
clocked=''
declare -a spent=() titles=()
ended() {
    ((step == 0)) || spent[step - 1]=$((SECONDS - step_begun))
    step_begun=$SECONDS
}
next() {
    local index should=0 did=0 pace=100 left=0
    ended
    for ((index = 0; index < step; index++)); do
        [[ " $clocked " != *" $index "* ]] || continue
        should=$((should + expected[index])) did=$((did + spent[index]))
    done
    # How this machine compares with the one of `expected` shows after a while.
    ((should < 20)) || pace=$((100 * did / should))
    for ((index = step; index < ${#expected[@]}; index++)); do
        if [[ " $clocked " == *" $index "* ]]; then
            left=$((left + expected[index]))
        else
            left=$((left + expected[index] * pace / 100))
        fi
    done
    titles+=("$1")
    step=$((step + 1))
    printf '\n\033[1m[%d/%d] %s\033[0m  (%d s so far, about %d s left)\n' \
        "$step" "${#expected[@]}" "$1" $((SECONDS - begun)) "$left"
}

# Where the time went, a line for each step.
split() {
    local index all
    ended
    all=$((SECONDS - begun))
    printf '\nWhere the time went:\n'
    for ((index = 0; index < step; index++)); do
        printf '%5d s  %3d %%  %s\n' "${spent[index]}" $((100 * spent[index] / (all > 0 ? all : 1))) "${titles[index]}"
    done
}
