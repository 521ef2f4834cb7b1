#!/usr/bin/env bash
# The main job on one machine without a cloud: two pairs of guests, untuned and tuned, beside the host itself.
#
#   tools/demo.sh [--local] [--output DIR] [--profile NAME] [--time-limit TIME]
#
# Run as root on Debian 12. It installs what bindep.txt and requirements.txt name (Python into .venv), builds
# a small guest image from distribution packages, shows the host and its plan, boots the guests through
# libvirt, measures, restores everything that it changed and writes report.html. Under 10 minutes the first
# time on 2 cores, under 4 after that; on a busy machine give the measurements --time-limit 15m. Where KVM
# cannot be used it takes TCG and the report says so.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
output=$top/demo-report profile=balanced limit=6m
while (($#)); do
    case $1 in
        --local) shift ;; # the only mode so far
        --output) output=$2; shift 2 ;;
        --profile) profile=$2; shift 2 ;;
        --time-limit) limit=$2; shift 2 ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) echo "demo.sh: unknown option $1; see --help" >&2; exit 3 ;;
    esac
done
((EUID == 0)) || { echo "demo.sh: run it as root: it makes taps, a bridge and guests" >&2; exit 3; }

begun=$SECONDS
# What each step took when this was written, in seconds: first time and warm. Only for "left".
declare -a cold=(120 15 1 1 210) warm=(3 3 1 1 205)
[[ -f $top/.venv/.stamp ]] && expected=("${warm[@]}") || expected=("${cold[@]}")
step=0
next() {
    local left=0 index
    for ((index = step; index < ${#expected[@]}; index++)); do left=$((left + expected[index])); done
    step=$((step + 1))
    printf '\n\033[1m[%d/%d] %s\033[0m  (%d s so far, about %d s left)\n' \
        "$step" "${#expected[@]}" "$1" $((SECONDS - begun)) "$left"
}

libvirt_started=
finish() {
    local code=$?
    trap - EXIT INT TERM
    if [[ -n $libvirt_started ]]; then "$top/tools/libvirt/down" || code=3; fi
    exit "$code"
}
trap finish EXIT
trap 'exit 130' INT TERM

next "Packages and Python environment"
"$top/tools/prepare.sh" --profile demo --extras report
export PATH=$top/.venv/bin:$PATH

next "Guest image from distribution packages"
"$top/tools/image/build" | sed -n "/^files:/,\$p" # the list of packages above it is long

next "This host"
nova-perf topology

next "What would be placed where on it: a preview, nothing is changed yet"
nova-perf plan

next "Guests: untuned, tuned (profile $profile) and the host, interleaved"
if ! virsh -c qemu:///system version >/dev/null 2>&1; then
    libvirt_started=1
    "$top/tools/libvirt/up"
fi
mkdir -p "$output"
nova-perf validate --launcher libvirt --profile "$profile" \
    --benchmark iperf3:streams=2 --benchmark fio \
    --groups 2 --blocks 3 --seconds 2 --time-limit "$limit" --output "$output"

# validate restores what it applied; a journal that still holds something would be a defect worth seeing.
nova-perf status
printf '\nGuests, taps and network are gone, and every host setting is as it was. %d s in all. The report:\n%s\n' \
    $((SECONDS - begun)) "$output/report.html"
