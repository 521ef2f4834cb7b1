#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs tests/nova on real Nova code of one release, with Nova's own fixtures. API, conductor, scheduler and compute
# service are in one process, with a fake libvirt connection and no network.
#
#   tools/nova_tests.sh 34 [REGEX]        releases 34, 33, 32 and 31
#   tools/nova_tests.sh --upstream 34     Nova's own tests of NUMA servers, NUMA live migration, VIF model and
#                                         SR-IOV, unchanged, with our driver loaded instead of Nova's
#   tools/nova_tests.sh --wheel 34        the wheel of this tree beside Nova's in a clean environment: does the driver
#                                         load, is Nova whole when it is taken away again
#   tools/nova_tests.sh --editable 34     Nova and this tree installed editable and as wheels, in every mix: does the
#                                         driver load where it should
#   tools/nova_tests.sh --python 34       only prints the interpreter, made if missing
#
# Environments are kept in ${XDG_CACHE_HOME:-~/.cache}/nova-perf-tuning, keyed by what is in them. The last two
# lines count: "Passed: N" and "Failed: N", from stestr. CONCURRENCY sets the number of workers (2).
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning
mode=own
# shellcheck source=tools/python_packages.sh
. "$top/tools/python_packages.sh"
case ${1:-} in
    -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
    --upstream | --wheel | --editable | --python) mode=${1#--}; shift ;;
esac
release=${1:-34} regex=${2:-}

# SQLAlchemy 2.1 deprecates what Nova's models do, and its test fixtures turn the warning into HTTP 500.
packages=('SQLAlchemy<2.1' openstack-placement stestr oslotest fixtures testtools testresources testscenarios
    wsgi-intercept python-barbicanclient pbr wheel)
case $release in
    34) packages+=(nova==34.0.0 'setuptools<82' glance==33.0.0) ;; # a real Glance for tests.nova.api.test_metadefs
    33) packages+=(nova==33.0.2 'setuptools<80') ;; # pkg_resources, which their dependencies still import
    32) packages+=(nova==32.2.1 'setuptools<80') ;;
    31) packages+=(nova==31.3.1 'setuptools<80') ;;
    *) echo "nova_tests.sh: no release '$release'; there are 34, 33, 32 and 31" >&2; exit 3 ;;
esac
# What the hook needs of ours; nova-compute never uses netlink through us.
mapfile -t own < <(sed 's/#.*//; s/ *$//' "$top/requirements.txt" | grep -vE '^$|^pyroute2\b')

find_python() {
    local candidate
    for candidate in "${PYTHON:-}" /usr/bin/python3 python3 python3.12 python3.11; do
        [[ -n $candidate ]] || continue
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' \
            2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo "nova_tests.sh: no Python 3.11 or 3.12 that can make virtual environments; install python3-venv" >&2
    return 1
}

python=$(find_python)
key=$(printf '%s\n' "$("$python" --version)" "${packages[@]}" | sha256sum | cut -c1-12)
venv=$cache/nova-$release-$key
log=$(mktemp "${TMPDIR:-/tmp}/nova-perf-nova.XXXXXX")
work=
trap 'rm -rf "$log" ${work:+"$work"}' EXIT
mkdir -p "$cache"
exec 9>"$venv.lock"
flock 9
if [[ ! -e $venv/.complete ]]; then
    echo "== environment of Nova $release in $venv" >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
    choose_installer "$venv"
    if ! install_packages "$venv" "${packages[@]}" >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "nova_tests.sh: Nova $release cannot be installed" >&2
        exit 3
    fi
    touch "$venv/.complete"
fi
# The tree itself: entry points and the mapping of the shim follow pyproject.toml, all else is read in place.
stamp="$top $(cat "$top"/{setup.cfg,pyproject.toml,requirements.txt} | sha256sum | cut -c1-12)"
if [[ $(cat "$venv/.tree" 2>/dev/null) != "$stamp" ]]; then
    choose_installer "$venv"
    if ! install_packages "$venv" "${own[@]}" 'SQLAlchemy<2.1' >"$log" 2>&1 ||
        ! PBR_VERSION=${PBR_VERSION:-0.0.1} install_packages "$venv" --no-build-isolation --no-deps -e "$top" \
            >"$log" 2>&1; then
        tail -n 15 "$log" >&2
        echo "nova_tests.sh: the tree cannot be installed" >&2
        exit 3
    fi
    printf '%s\n' "$stamp" >"$venv/.tree"
fi
flock -u 9
if [[ $mode == python ]]; then
    echo "$venv/bin/python"
    exit
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-stestr.XXXXXX")
export PYTHONDONTWRITEBYTECODE=1 PYTHONWARNINGS=ignore
# Seconds for one test, read by oslotest: on a crowded machine a live migration of Nova's own tests once waited
# for ever.
export OS_TEST_TIMEOUT=${OS_TEST_TIMEOUT:-900}
result=0 passed=0 failed=0

# run NAME DIRECTORY [REGEX]: one stestr run; adds to the counts.
run() {
    mkdir "$work/$1"
    "$venv/bin/python" -m stestr --test-path "$2" --top-dir "$top" --repo-url "$work/$1" \
        run --concurrency "${CONCURRENCY:-2}" ${3:+"$3"} | tee "$work/$1.out" || result=1
    local ok bad
    ok=$(sed -nE 's/^ - Passed: ([0-9]+)$/\1/p' "$work/$1.out")
    bad=$(sed -nE 's/^ - Failed: ([0-9]+)$/\1/p' "$work/$1.out")
    passed=$((passed + ${ok:-0})) failed=$((failed + ${bad:-0}))
    if ((${ok:-0} == 0)); then result=1; fi
}

cd "$top"
case $mode in
    own)
        # Eventlet, the only mode up to Nova 33, runs a test in a fifth of the time that native threads take. On 34,
        # where threads are the default of nova-compute, the paths that start threads run in both.
        OS_NOVA_DISABLE_EVENTLET_PATCHING=false run eventlet tests/nova "$regex"
        if [[ $release == 34 && -z $regex ]]; then
            threads='\.OneHostTest\.|\.HostTest\.|\.LiveMigrationTest\.test_pinned|test_fail_names_the_specs'
            # One worker: to import Nova once more takes longer than the few tests.
            CONCURRENCY=1 OS_NOVA_DISABLE_EVENTLET_PATCHING=true run threads tests/nova "$threads"
        fi
        ;;
    wheel)
        # A copy, so that no build directory appears in the tree.
        git -c safe.directory="$top" clone -q "$top" "$work/tree"
        PBR_VERSION=${PBR_VERSION:-0.0.1} "$venv/bin/pip" -q wheel --disable-pip-version-check --no-build-isolation \
            --no-deps -w "$work" "$work/tree"
        "$python" -m venv "$work/clean"
        pip=("$work/clean/bin/pip" -q --disable-pip-version-check)
        choose_installer "$work/clean"
        install_packages "$work/clean" "${packages[@]}" "${own[@]}" pyroute2 >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
        "${pip[@]}" install --no-deps "$work"/*.whl
        cd /
        load='from nova.virt import driver; from oslo_utils import importutils
import sys; name = f"nova.virt.{sys.argv[1]}"; print(importutils.import_class(name).__mro__[:2])'
        "$work/clean/bin/python" -W ignore -c "$load" perf_tuning.PerfTuningLibvirtDriver 2>/dev/null
        passed=$((passed + 1))
        "${pip[@]}" uninstall -y nova-perf-tuning
        "$work/clean/bin/python" -W ignore -c "$load" libvirt.LibvirtDriver 2>/dev/null
        "$work/clean/bin/python" -c 'import nova.virt, os; assert not os.path.exists(nova.virt.__path__[0] + "/perf_tuning.py")'
        passed=$((passed + 1))
        ;;
    editable)
        # Nova's own files, installed editable by setuptools as its pbr build would have it; everything else of the
        # environment is reached through links, so that Nova is nowhere else. Finders of setuptools before 80 find
        # more than later ones do, and with them a mix works that breaks today.
        site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        git -c safe.directory="$top" clone -q "$top" "$work/tree"
        mkdir -p "$work/nova" "$work/rest"
        "$venv/bin/pip" -q --disable-pip-version-check install --no-deps --target "$work/rest" 'setuptools>=80'
        cp -a "$site/nova" "$work/nova/nova"
        printf '%s\n' '[build-system]' 'requires = ["setuptools"]' 'build-backend = "setuptools.build_meta"' \
            >"$work/nova/pyproject.toml"
        echo "import setuptools as s; s.setup(name='nova', version='$release.0.0', packages=s.find_packages())" \
            >"$work/nova/setup.py"
        for entry in "$site"/*; do
            case ${entry##*/} in
                nova | nova-* | nova_perf_tuning* | __editable__* | setuptools* | *.pth) ;;
                *) [[ -e $work/rest/${entry##*/} ]] || ln -s "$entry" "$work/rest/" ;;
            esac
        done
        # mix NAME "NOVA'S OPTIONS" "OURS" yes|no: installs both; whether the driver is to load then.
        mix() {
            local home=$work/$1 nova own
            read -ra nova <<<"$2"
            read -ra own <<<"$3"
            "$python" -m venv --without-pip "$home"
            echo "$work/rest" >"$("$home/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/rest.pth"
            local install=("$venv/bin/pip" -q --disable-pip-version-check --python "$home/bin/python" install
                --no-build-isolation --no-deps)
            "${install[@]}" "${nova[@]}" "$work/nova"
            PBR_VERSION=${PBR_VERSION:-0.0.1} "${install[@]}" "${own[@]}" "$work/tree"
            cd /
            local loads=yes
            "$home/bin/python" -W ignore -c 'from nova.virt import perf_tuning; perf_tuning.PerfTuningLibvirtDriver' \
                2>"$work/$1.why" || loads=no
            if [[ $loads == "$4" ]]; then
                passed=$((passed + 1))
                echo "ok      $1: the driver loads: $loads"
            else
                failed=$((failed + 1)) result=1
                echo "FAILED  $1: the driver loads: $loads, expected: $4"
                tail -n 3 "$work/$1.why"
            fi
        }
        mix nova-editable-ours-editable -e -e yes
        mix nova-editable-ours-wheel -e '' no
        mix nova-path-ours-editable '--config-settings editable_mode=compat -e' -e yes
        mix nova-path-ours-wheel '--config-settings editable_mode=compat -e' '' no
        mix nova-wheel-ours-editable '' -e yes
        mix nova-wheel-ours-strict '' '--config-settings editable_mode=strict -e' no
        mix nova-wheel-ours-wheel '' '' yes
        ;;
    upstream)
        # Nova's tests look for api-paste.ini beside the package; the wheel has it as data below the prefix.
        site=$("$venv/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
        [[ -e $site/etc ]] || ln -s "$venv/etc" "$site/etc"
        "$venv/bin/python" -c 'import ddt' 2>/dev/null || "$venv/bin/pip" -q install --disable-pip-version-check ddt
        OS_NOVA_DISABLE_EVENTLET_PATCHING=false run upstream tests/nova_upstream "$regex"
        ;;
esac
echo "Passed: $passed"
echo "Failed: $failed"
exit "$result"
