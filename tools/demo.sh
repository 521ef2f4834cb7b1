#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The main job, on this machine alone: guests untuned and tuned, measured beside the host, judged.
#
#   tools/demo.sh [--blocks N] [--slot-time TIME] [...]  on a real OpenStack, two hosts
#   tools/demo.sh --local [--boots N] [...]              through libvirt, without a cloud
#
# Both take --output DIR, --profile NAME and --time-limit TIME.
#
# Run as root on Debian 12. It installs what bindep.txt and requirements.txt name, and builds a small guest image from
# distribution packages. Python goes into .venv, or for the cloud into the user's cache.
#
# It starts a cloud and makes a flavor with a profile. It shows Nova's API refuse a bad one, and a picture of the plan
# (plan.svg). Guests that Heat launches measure both hosts. A limit on the CPU time of its guests makes host2 sick: it is
# found, gets no trait and leaves service. A flavor that requires the trait lands on host1.
# The fault is taken away, host2 passes, a guest moves there by live migration, and the cloud is removed. With --local it
# shows the host and its plan, boots the guests through libvirt, measures, and restores everything that it changed. Both
# write report.html.
#
# --boots (default: 3) sets how often --local boots its guests: more of them narrow an INCONCLUSIVE verdict.
#
# Where a cloud's hosts get other verdicts than they should, it measures once more. --blocks (trials on each guest) and
# --slot-time (of one trial) set both. On a busy machine give the measurements of --local a --time-limit of 15m; the
# cloud gives itself more, and longer slots. Where KVM cannot be used they take TCG and the report says so. The last
# lines say where the time went.
#
# Exit code: 0 done; on the cloud 1 FAIL or 2 INCONCLUSIVE where the verdict should be PASS; 3 wrong usage or an error;
# 130 ended by Ctrl-C, SIGTERM, or a terminal or reader that has gone: then too everything is removed first.
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
output=$top/demo-report profile=balanced limit='' boots=3
while (($#)); do
    case $1 in
        --output) needs "$@" "a directory"; output=$2; shift 2 ;;
        --profile) needs "$@" "a name"; profile=$2; shift 2 ;;
        --boots) needs "$@" "a number"; boots=$2; shift 2 ;;
        --time-limit) needs "$@" "a time, such as 15m"; limit=$2; shift 2 ;;
        *) refuse "unknown option $1; see --help" ;;
    esac
done
known_profile "$profile" "$top"
[[ $boots =~ ^[1-9][0-9]?$ ]] || refuse "--boots '$boots': give a number from 1 to 99"
# Two minutes for each boot: twice what one takes where guests are emulated.
[[ -n $limit ]] || limit=$((2 * boots))m
seconds --time-limit "$limit" 20 >/dev/null
((EUID == 0)) || refuse "run it as root: it makes taps, a bridge and guests"

# What each step took when this was written, in seconds: first time and warm. Only for "left".
measuring=$((37 * boots))
declare -a cold=(113 25 1 1 "$measuring") warm=(2 1 1 1 "$measuring")
[[ -f $top/.venv/.stamp ]] && expected=("${warm[@]}") || expected=("${cold[@]}")
clocked='0 1' # downloads

libvirt_started=
finish() {
    trap '' HUP INT TERM PIPE # a second one; what is called then ignores it too
    trap - EXIT
    local code=$1
    if [[ -n $libvirt_started ]]; then "$top/tools/libvirt/down" || code=3; fi
    exit "$code"
}
trap 'finish $?' EXIT
trap 'finish 130' INT TERM PIPE
trap 'exec >/dev/null 2>&1; finish 130' HUP # its terminal has gone

next "Packages and Python environment"
"$top/tools/prepare.sh" --profile demo --extras validation,libvirt
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
cat >"$output/budget.yaml" <<'YAML'
# For a short demonstration on any machine.
guards:
  # Where this machine is itself a guest beside busy neighbours, trials of which half of the CPU time was taken away
  # still show something; a verdict that counts should be asked for with the default of 5 %.
  max_steal: 0.5
budgets:
  # Tuning may cost the CPUs of emulated guests a third, since boots on two shared CPUs differ, and real ones a tenth.
  - {benchmark: cpu, baseline: untuned, arm: tuned, max_loss: 0.33, accelerator: tcg, optional: true}
  - {benchmark: cpu, baseline: untuned, arm: tuned, max_loss: 0.1, accelerator: kvm, optional: true}
YAML
# 1 and 2 are verdicts too, FAIL and INCONCLUSIVE.
nova-perf validate --launcher libvirt --profile "$profile" \
    --benchmark iperf3:streams=2 --benchmark cpu --budget "$output/budget.yaml" \
    --boots "$boots" --blocks 1 --seconds 1 --time-limit "$limit" --output "$output" || (($? < 3))

# validate restores what it applied; a journal that still holds something would be a defect worth seeing.
nova-perf status
split
printf '\nGuests, taps and network are gone, and every host setting is as it was. %d s in all. The report:\n%s\n' \
    $((SECONDS - begun)) "$output/report.html"
