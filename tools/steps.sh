# Steps of a demonstration with time spent and left; sourced. The caller sets `expected`, the seconds that each
# step took when it was written.
# shellcheck shell=bash
begun=$SECONDS
step=0
next() {
    local left=0 index
    for ((index = step; index < ${#expected[@]}; index++)); do left=$((left + expected[index])); done
    step=$((step + 1))
    printf '\n\033[1m[%d/%d] %s\033[0m  (%d s so far, about %d s left)\n' \
        "$step" "${#expected[@]}" "$1" $((SECONDS - begun)) "$left"
}
