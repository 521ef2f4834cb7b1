#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Sets up whatever is missing on a fresh Debian 12 machine and runs every test.
#
#   tools/test.sh                    everything but debian and the long ones: lab, live, long, most of cloud
#   tools/test.sh unit [REGEX]       one part: lint, docs, unit, programs, functional, nova, package, debian, benchmarks, cloud, lab, live, long,
#                                    demo
#   tools/test.sh --nova 33 [REGEX]  the Nova suites on one release: 34 (the default run takes it), 33, 32, 31 or all
#
# Independent parts run side by side on two cores; what measures runs alone, and beside the cloud only what can wait.
# The last line counts: "tests: N passed, N failed". Exit code 0 only when nothing failed.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    exit 0
fi
cd "$top"
venv=${VENV:-$top/.venv}
logs=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-test.XXXXXX")
# What a part that was broken off had started must not outlive it.
ended='' libvirt_before=''
compiled=(nova_perf_tuning tests)
compiled_before=$(find "${compiled[@]}" -name __pycache__ -print -quit)
[[ ! -e /run/nova-perf-libvirt/libvirtd.pid ]] || libvirt_before=1
# finish CODE: removes everything and ends. A second signal does not break off the removal.
finish() {
    trap '' HUP INT TERM PIPE # what is called then ignores them too
    trap - EXIT
    [[ ! -d $logs/lab ]] || NOVA_PERF_LAB=$logs/lab tools/lab/down
    [[ ! -d $logs/cloud ]] || tools/cloud/down --state "$logs/cloud" >/dev/null
    [[ -n $ended$libvirt_before || ! -e /run/nova-perf-libvirt/libvirtd.pid ]] || tools/libvirt/down
    rm -rf "$logs"
    [[ -n $compiled_before ]] || find "${compiled[@]}" -name __pycache__ -prune -exec rm -rf {} +
    exit "$1"
}
trap 'finish $?' EXIT
trap 'finish 130' INT TERM PIPE
trap 'exec >/dev/null 2>&1; finish 130' HUP # its terminal has gone
export PYTHONDONTWRITEBYTECODE=1
if [[ -z ${NOVA_PERF_TOPOLOGIES:-} && -d $top/../shared/data/topologies ]]; then
    NOVA_PERF_TOPOLOGIES=$(cd "$top/../shared/data/topologies" && pwd)
    export NOVA_PERF_TOPOLOGIES
fi
passed=0 failed=0 begun=$SECONDS
declare -a broken=()
declare -A side=()

say() { printf '\n== %s  [%d s]\n' "$*" $((SECONDS - begun)); }

# What stands before the commands of checks in a lane that takes only the CPU that nobody else wants.
standing_back=()
# stand_back COMMAND...: the kernel weighs sessions, where it does, before processes (sched(7), autogroup).
stand_back() {
    # shellcheck disable=SC2016 # for the shell that it starts
    setsid --wait bash -c '{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exec nice -n 19 "$@"' bash "$@"
}

# Parts that are one check each: lint NAME COMMAND...
check() {
    local name=$1
    shift
    if "${standing_back[@]}" "$@" >"$logs/$name" 2>&1; then
        passed=$((passed + 1))
        echo "ok      $name"
    else
        failed=$((failed + 1))
        broken+=("$name")
        echo "FAILED  $name"
        tail -n 40 "$logs/$name"
    fi
}

# A stestr run: counts come from its own stream, so a run that executed nothing is a failure.
stestr_run() {
    local name=$1 path=$2 workers=$3 regex=${4:-}
    local result=0 counts ok bad
    mkdir -p "$logs/stestr-$name"
    "$venv/bin/stestr" --test-path "$path" --top-dir "$top" --repo-url "$logs/stestr-$name" \
        run --concurrency "$workers" ${regex:+"$regex"} >"$logs/$name" 2>&1 || result=$?
    counts=$("$venv/bin/python" tools/count_tests.py "$logs/$name")
    read -r ok bad <<<"$counts"
    passed=$((passed + ok)) failed=$((failed + bad))
    if ((result != 0 || bad > 0 || ok == 0)); then
        ((bad > 0)) || failed=$((failed + 1))
        broken+=("$name")
        echo "FAILED  $name: $ok passed, $bad failed"
        grep -hE ' \.\.\. FAILED$' "$logs/$name" || true
        grep -v ' \.\.\. ok$' "$logs/$name" | tail -n 400
    else
        echo "ok      $name: $ok tests passed"
        grep -hE '^(USED|NOTE): ' "$logs/$name" || true
    fi
}

run_lint() {
    say "lint"
    check ruff "$venv/bin/ruff" check --no-cache .
    check ruff-format "$venv/bin/ruff" format --no-cache --check .
    # Kept beside uv's packages: what has not changed, most of it of others, is not read for 40 seconds each time.
    check mypy "$venv/bin/mypy" \
        --cache-dir "${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning}/mypy"
    check shellcheck tools/check_shell.sh
    check codespell "$venv/bin/codespell"
    check reno "$venv/bin/reno" lint
    check licence bash -c "! git -c safe.directory='$top' ls-files '*.py' '*.sh' |
        xargs grep --files-without-match SPDX-License-Identifier | grep ."
    check ansible-lint env -C ansible PATH="$venv/bin:$PATH" ANSIBLE_HOME="$logs/ansible" \
        "$venv/bin/ansible-lint" --offline --profile production
}

run_docs() {
    say "documentation, warnings are errors"
    check docs "$venv/bin/sphinx-build" -q -W --keep-going -b html -d "$logs/doctrees" doc/source "$logs/html"
    check readme "$venv/bin/python" -m docutils --report warning --halt warning README.rst "$logs/readme.html"
    check releasenotes "$venv/bin/sphinx-build" -q -W -b html -d "$logs/notestrees" releasenotes/source "$logs/notes"
}

run_unit() {
    say "unit tests"
    stestr_run unit tests/unit 2 "$regex"
}

# Scripts, pages and programs of the tree, each run as a process.
run_programs() {
    say "programs and scripts"
    stestr_run programs tests/functional/programs 2 "$regex"
}

run_functional() {
    say "functional tests: real libvirt, QEMU and kernel objects"
    stestr_run functional tests/functional 1 "$regex"
}

# Those that boot guests, or must not run beside guests; those that wait most of the time (for slots of the clock, for a
# moment to kill); those that leave this machine's masks alone; and the others.
guests='launch\.|validate\.|guest\.|transaction\.test_placement_demo' waits='cloud\.|database\.test_kill\.'
data='database\.|bench\.'
run_functional_guests() {
    say "functional tests: real libvirt and QEMU"
    stestr_run functional-guests tests/functional 1 "^tests\.functional\.($guests)"
}
run_functional_waits() {
    say "functional tests: guests' scripts in network namespaces, killed controllers"
    stestr_run functional-waits tests/functional 1 "^tests\.functional\.($waits)"
}
run_functional_data() {
    say "functional tests: databases and benchmark programs"
    stestr_run functional-data tests/functional 1 "^tests\.functional\.(?!$waits)($data)"
}
run_functional_others() {
    say "functional tests: kernel objects"
    stestr_run functional-others tests/functional 1 "^tests\.functional\.(?!programs\.|$waits|$data|$guests)"
}

# beside NAME PART...: runs parts while others go on; joined NAME waits for them, prints and counts.
beside() {
    local name=$1
    shift
    # shellcheck disable=SC2030 # counts of its own
    (
        passed=0 failed=0 broken=()
        for part in "$@"; do "$part"; done
        echo "$passed $failed ${broken[*]:-}" >"$logs/$name"
    ) >"$logs/$name.txt" 2>&1 &
    side[$name]=$!
}
# shellcheck disable=SC2031 # see there
joined() {
    local ok bad names
    wait "${side[$1]}" || true
    cat "$logs/$1.txt"
    read -r ok bad names <"$logs/$1" || { ok=0 bad=1 names=$1; }
    passed=$((passed + ok)) failed=$((failed + bad))
    [[ -z $names ]] || broken+=("$names")
}

# Real Nova code with its own fixtures, in an environment of its own for each release.
run_nova() {
    local releases=("$nova") release ok bad result
    [[ $nova != all ]] || releases=(34 33 32 31)
    for release in "${releases[@]}"; do
        say "Nova $release: driver, API, scheduler and placement in one process"
        result=0
        tools/nova_tests.sh "$release" "$regex" >"$logs/nova-$release" 2>&1 || result=$?
        ok=$(sed -n 's/^ *-* *Passed: //p' "$logs/nova-$release" | tail -n 1)
        bad=$(sed -n 's/^ *-* *Failed: //p' "$logs/nova-$release" | tail -n 1)
        passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
        if ((result != 0 || ${ok:-0} == 0)); then
            ((${bad:-0} > 0)) || failed=$((failed + 1))
            broken+=("nova-$release")
            echo "FAILED  nova-$release: ${ok:-0} passed, ${bad:-0} failed"
            grep -hE ' \.\.\. FAILED$' "$logs/nova-$release" || true
            grep -hA 40 '^Captured traceback' "$logs/nova-$release" || tail -n 120 "$logs/nova-$release"
        else
            echo "ok      nova-$release: $ok tests passed"
        fi
    done
}

run_package() {
    say "packaging: wheel into a clean environment"
    check package tools/test_package.sh "$venv"
}

# Packages of Debian in a clean root; not in the default run.
run_debian() {
    tools/prepare.sh --profile debian --packages-only --venv "$venv"
    say "Debian packages: built, read by lintian, installed, purged"
    check debian tools/test_debian.sh "$venv"
    tail -n 1 "$logs/debian"
}

run_benchmarks() {
    say "benchmarks: printed, not judged"
    local name
    for name in host agent fleet; do benchmark "$name"; done
}

# benchmark NAME [OPTION...]: prints what it measured.
benchmark() {
    check "benchmark-$1" "$venv/bin/python" -m tests.benchmarks "$@"
    cat "$logs/benchmark-$1"
}

# Those that measure time, and need a quiet machine for it. The fleet runs in virtual time.
run_benchmarks_alone() {
    say "benchmarks on the quiet machine: printed, not judged"
    benchmark host
    benchmark agent
}
run_benchmark_fleet() {
    say "benchmark of a fleet in virtual time: printed, not judged"
    benchmark fleet --hosts 200 # of 1,000, as tools/test.sh benchmarks does it: three minutes of a CPU
}

# What every run shows of the cloud; all of tests/cloud takes an hour.
cloud_core='ServicesTest|test_guests_on_both|test_api_refuses|TraitTest|engine_accepts|test_two_arms'
run_cloud_core() {
    local regex=$cloud_core
    run_cloud
}

# While the cloud waits for its guests, for up to half of its time.
run_checks() {
    standing_back=(stand_back)
    run_lint
    run_docs
    run_package
}

# A cloud for the run alone: real Nova, OVN, Heat and libvirt on two hosts.
run_cloud() {
    say "cloud: OpenStack with two compute hosts"
    export NOVA_PERF_CLOUD=$logs/cloud
    check cloud-up tools/cloud/up
    tail -n 25 "$logs/cloud-up"
    stestr_run cloud-tests tests/cloud 1 "$regex"
    check cloud-down tools/cloud/down
    unset NOVA_PERF_CLOUD
}

# Its packages, so that it starts at once later.
run_cloud_prepare() {
    check cloud-prepare tools/cloud/prepare
}

# An emulated host with two nodes, on each kernel: what really happens to interrupts and threads.
run_lab() {
    local kernel
    tools/prepare.sh --profile lab --packages-only
    export NOVA_PERF_LAB=$logs/lab
    for kernel in 6.1 6.12; do
        say "lab: emulated NUMA host, kernel $kernel"
        check "lab-up-$kernel" tools/lab/up --kernel "$kernel"
        tail -n 5 "$logs/lab-up-$kernel"
        stestr_run "lab-$kernel" tests/lab 1 "$regex"
        check "lab-down-$kernel" tools/lab/down
    done
    unset NOVA_PERF_LAB
}

# Guests broken on purpose; only on a quiet machine.
run_live() {
    say "live verdicts: a CPU quota, a rate limit; six to twenty minutes, until they are certain"
    stestr_run live tests/live 1 "$regex"
}

# UnixBench in guests, and what boots the full guest image or builds images: six minutes.
run_long() {
    say "UnixBench, databases, Samba and cyclictest in guests; an image with a tool of one's own"
    stestr_run long tests/long 1 "$regex"
}

# On a machine with other work its verdict may be open, which is no fault of the tree.
demo_decides() {
    local code=0
    tools/demo.sh --local --output "$logs/demo-report" || code=$?
    ((code == 0 || code == 2))
}

run_demo() {
    say "tools/demo.sh --local" # what it shows on a cloud is tested part by part in tests/cloud
    check demo demo_decides
    tail -n 25 "$logs/demo"
}

run_leftovers() {
    say "nothing is left behind"
    check leftovers "$venv/bin/python" tools/leftovers.py compare "$logs/before"
}

nova=34
if [[ ${1:-} == --nova ]]; then
    nova=${2:?--nova needs a release: 34, 33, 32, 31 or all}
    shift 2
    set -- nova "$@"
fi
part=${1:-all} regex=${2:-}
case $part in
    all | lint | docs | unit | programs | functional | nova | package | debian | benchmarks | cloud | lab | live | long | demo) ;;
    *) echo "test.sh: no part '$part'; see tools/test.sh --help" >&2; exit 3 ;;
esac
"$top/tools/prepare.sh" --profile test --extras validation,libvirt,test,docs,lint,cloud,agent --venv "$venv"
"$venv/bin/python" tools/leftovers.py record "$logs/before"
# Once, and not again in each of hundreds of processes. Where the tree cannot be written it is done without.
"$venv/bin/python" -m compileall -q -j 2 "${compiled[@]}" >"$logs/compiled" 2>&1 || true

case $part in
    all)
        # Two or three processes are at work at any time, and what waits. Programs and unit tests have the masks of this
        # machine as they are: the others write them.
        beside nova run_nova
        beside waits run_functional_waits run_cloud_prepare run_benchmark_fleet run_functional_data
        run_unit
        run_programs
        beside others run_functional_others
        run_functional_guests
        for lane in nova waits others; do joined "$lane"; done
        run_benchmarks_alone
        beside checks run_checks
        run_cloud_core
        joined checks
        run_demo
        run_leftovers
        ;;
    *) "run_$part" ;;
esac

ended=1
say "done"
mapfile -t logged < <(grep -lE '^\{[0-9]+\} ' "$logs"/* 2>/dev/null)
if ((${#logged[@]})); then
    echo "the slowest tests:"
    "$venv/bin/python" tools/count_tests.py --slowest "${logged[@]}"
fi
((failed == 0)) || echo "failed: ${broken[*]}"
echo "tests: $passed passed, $failed failed"
((failed == 0 && passed > 0))
