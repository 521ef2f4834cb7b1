#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# What this project is for, on this machine alone.
#
#   tools/demo.sh [--blocks N] [--slot-time TIME] [...]  on a real OpenStack, two hosts: finds a slow host
#   tools/demo.sh --local [--boots N] [...]              without a cloud: what placement is worth
#
# Both take --output DIR and --time-limit TIME, the cloud also --profile NAME.
#
# Run as root on Debian 12. It installs what bindep.txt and requirements.txt name, and builds a small guest image from
# distribution packages. Python goes into .venv, or for the cloud into the user's cache.
#
# It starts a cloud and makes a flavor with a profile. It shows Nova's API refuse a bad one, and a picture of the plan
# (plan.svg). Guests that Heat launches measure both hosts. A limit on the CPU time of its guests makes host2 sick: it is
# found, gets no trait and leaves service. Guests of a flavor that requires the trait land on host1.
# The fault is taken away, host2 passes, a guest moves there by live migration, and the cloud is removed.
#
# With --local a busy thread on the last CPU stands for a guest that owns it, and CPU 0 floods a pair of veth with
# packets. RPS spreads them over both CPUs, as tuning guides recommend. It shows the plan with its picture (as-found.svg),
# and measures the guest without packets, as found, after nova-perf apply, and after nova-perf restore. Guest and packets
# run before other programs (nice -20). Both write report.html and results.json.
#
# --boots (default: 6) sets how often --local starts guest and network anew. It measures as many again where the verdict
# is not certain, and twice as many from the start where the machine is busy; no more begin after --time-limit
# (default: 2m).
#
# Where a cloud's hosts get other verdicts than they should, it measures once more. --blocks (trials on each guest) and
# --slot-time (of one trial) set both. Where KVM cannot be used the cloud takes TCG and the report says so. The last
# lines say where the time went.
#
# Exit code: 0 done, and the verdict is PASS; 1 FAIL, 2 INCONCLUSIVE; 3 INVALID (the machine is too busy), wrong usage or
# an error; 130 ended by Ctrl-C, SIGTERM, or a terminal or reader that has gone: then too everything is removed first.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
place=cloud arguments=()
for argument; do
    case $argument in
        --local) place=local ;;
        --cloud) ;;
        -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) arguments+=("$argument") ;;
    esac
done
[[ $place == local ]] || exec "$top/tools/cloud/demo" "${arguments[@]}"
set -- "${arguments[@]}"
. "$top/tools/steps.sh"
output=$top/demo-report limit=2m boots=6
while (($#)); do
    case $1 in
        --output) needs "$@" "a directory"; output=$2; shift 2 ;;
        --boots) needs "$@" "a number"; boots=$2; shift 2 ;;
        --time-limit) needs "$@" "a time, such as 15m"; limit=$2; shift 2 ;;
        *) refuse "unknown option $1; see --help" ;;
    esac
done
[[ $boots =~ ^[2-9]$|^[1-9][0-9]$ ]] || refuse "--boots '$boots': give a number from 2 to 99"
limit=$(seconds --time-limit "$limit" 20)
((EUID == 0)) || refuse "run it as root: it makes network devices and moves work of the kernel"
mkdir -p "$output"
output=$(realpath "$output")

# What each step took when this was written, in seconds: first time and warm. Only for "left".
measuring=$((3 * boots))
declare -a cold=(113 1 "$measuring" 2) warm=(2 1 "$measuring" 2)
[[ -f $top/.venv/.stamp ]] && expected=("${warm[@]}") || expected=("${cold[@]}")
clocked='0 2' # downloads, windows

measures=
finish() {
    trap '' HUP INT TERM PIPE # a second one; what is called then ignores it too
    trap - EXIT
    local code=$1
    if [[ -n $measures ]] && kill -TERM "$measures" 2>/dev/null; then
        # 3: the machine is not as it was.
        wait "$measures" || (($? != 3)) || code=3
    fi
    exit "$code"
}
trap 'finish $?' EXIT
trap 'finish 130' INT TERM PIPE
trap 'exec >/dev/null 2>&1; finish 130' HUP # its terminal has gone

next "Packages and Python environment"
"$top/tools/prepare.sh" --profile demo --extras validation,libvirt
export PATH=$top/.venv/bin:$PATH

next "This host"
nova-perf topology

next "A guest without packets, as found, after nova-perf apply, after nova-perf restore"
cp "$top/tools/placement_demo/budget.yaml" "$output"
cd "$top"
PYTHONDONTWRITEBYTECODE=1 python -m tools.placement_demo "$output" "$boots" "$limit" &
measures=$!
wait "$measures" || exit $?
measures=

next "Verdict, from the results alone"
nova-perf report "$output/results.json" --budget "$output/budget.yaml" >/dev/null
echo "\$ nova-perf evaluate $output/results.json --budget $output/budget.yaml"
verdict=0
nova-perf evaluate "$output/results.json" --budget "$output/budget.yaml" || verdict=$?
split
printf '\nGuest and network are gone, and every host setting is as it was. %d s in all. The report:\n%s\n' \
    $((SECONDS - begun)) "$output/report.html"
finish "$verdict"
