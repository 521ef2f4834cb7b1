#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Brings a Debian 12 machine from nothing to a virtual environment with this tree in it.
#
#   tools/prepare.sh [--profile demo|test|cloud|lab|bench|debian|container] [--extras validation,test] [--venv DIR] [--packages-only]
#
# Debian packages come from bindep.txt (the profile's lines and those without one), Python packages from
# requirements.txt and the extras of pyproject.toml. Nothing is done twice: an environment whose stamp matches
# those files, with these extras or more, is left as it is. As a user who is not root it only says which packages
# are missing.
set -euo pipefail

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
profile=demo extras=validation,libvirt venv=$top/.venv packages_only=0
# shellcheck source=tools/python_packages.sh
. "$top/tools/python_packages.sh"
while (($#)); do
    case $1 in
        --profile) profile=$2; shift 2 ;;
        --extras) extras=$2; shift 2 ;;
        --venv) venv=$2; shift 2 ;;
        --packages-only) packages_only=1; shift ;;
        -h | --help) sed -n '3,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"; exit 0 ;;
        *) echo "prepare.sh: unknown option $1; see --help" >&2; exit 3 ;;
    esac
done

say() { printf '== %s\n' "$*" >&2; }

# Runs COMMAND with its output in the log, and says every 20 seconds where it is: minutes without a line look dead.
watched() {
    local code=0 beat
    (
        waited=0
        while sleep 2 && kill -0 $$ 2>/dev/null; do
            waited=$((waited + 2))
            ((waited % 20)) || say "   $waited s: $(tail -n 1 "$log" | LC_ALL=C tr -cd '[:print:]' | cut -c 1-100)"
        done
    ) &
    beat=$!
    "$@" >"$log" 2>&1 || code=$?
    kill "$beat" 2>/dev/null || true
    wait "$beat" 2>/dev/null || true
    return "$code"
}

apt_install() {
    local missing=()
    local name
    for name in "$@"; do
        dpkg-query -W -f '${db:Status-Abbrev}' "$name" 2>/dev/null | grep -q '^ii' || missing+=("$name")
    done
    ((${#missing[@]})) || return 0
    if ((EUID != 0)); then
        echo "prepare.sh: these packages are missing; install them as root: ${missing[*]}" >&2
        exit 3
    fi
    say "apt-get install ${missing[*]}"
    export DEBIAN_FRONTEND=noninteractive
    # Package lists of a fresh machine are empty or old; both show as a failed install, so update first.
    watched apt-get -q update || { tail -n 5 "$log" >&2; echo "prepare.sh: apt-get update failed" >&2; exit 3; }
    watched apt-get -q install -y --no-install-recommends "${missing[@]}" || {
        tail -n 15 "$log" >&2
        echo "prepare.sh: apt-get install failed; the whole log is in $log" >&2
        exit 3
    }
}

# The distribution's python3, if it is 3.11 to 3.13 and can make virtual environments, else another that can: one that
# pyenv built without optimisation takes a quarter longer for everything. Debian's is installed when none can.
find_python() {
    local candidate
    for candidate in "${PYTHON:-}" /usr/bin/python3 python3 python3.13 python3.12 python3.11; do
        [[ -n $candidate ]] || continue
        if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' \
            2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

log=$(mktemp "${TMPDIR:-/tmp}/nova-perf-prepare.XXXXXX")

command -v apt-get >/dev/null || { echo "prepare.sh: this machine has no apt-get; see doc/source/install.rst" >&2; exit 3; }
python=$(find_python) || { apt_install python3 python3-venv; python=$(find_python); }

# A wheel or an editable install asks git for the version; a tree owned by somebody else is refused there.
if ! git -C "$top" rev-parse HEAD >/dev/null 2>&1; then
    export PBR_VERSION=${PBR_VERSION:-0.0.1}
fi

if [[ ! -x $venv/bin/python ]] || ! "$venv/bin/python" -c '' 2>/dev/null; then
    say "virtual environment in $venv ($("$python" --version))"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi
stamp=$(cd "$top" && cat requirements.txt setup.cfg setup.py pyproject.toml tools/{prepare,python_packages}.sh | sha256sum | cut -c1-16)
# serves: whether what is installed is of these files, with these extras or more.
serves() {
    local files had place extra
    [[ -e $venv/.stamp ]] || return 1
    read -r files had place <"$venv/.stamp"
    [[ "$files $place" == "$stamp $top" ]] || return 1
    for extra in ${extras//,/ }; do
        [[ ,$had, == *",$extra,"* ]] || return 1
    done
}
# What packages are there is asked again when one was installed or removed, or bindep.txt has changed.
packages=$venv/.packages-$profile
asked=$(cd "$top" && { stat -c %.9Y /var/lib/dpkg/status; sha256sum bindep.txt; })
if [[ $(cat "$packages" 2>/dev/null) != "$asked" ]]; then
    if [[ ! -x $venv/bin/bindep ]]; then
        choose_installer "$venv"
        watched install_packages "$venv" bindep ||
            { tail -n 5 "$log" >&2; echo "prepare.sh: bindep cannot be installed" >&2; exit 3; }
    fi
    # bindep -b prints what is missing, a name a line, and then exits 1.
    if listed=$(cd "$top" && "$venv/bin/bindep" -b "$profile"); then
        printf '%s\n' "$asked" >"$packages"
    elif [[ -n $listed ]]; then
        mapfile -t names <<<"$listed"
        apt_install "${names[@]}"
    fi
fi
if ((packages_only)); then
    rm -f "$log"
    exit
fi

if ! serves; then
    say "Python packages: nova-perf-tuning[$extras]"
    choose_installer "$venv"
    if ! { watched install_packages "$venv" 'setuptools>=64' wheel 'pbr>=6.1.1' &&
        watched install_packages "$venv" --no-build-isolation -e "${top}[${extras}]"; }; then
        tail -n 15 "$log" >&2
        echo "prepare.sh: these packages cannot be installed; the whole log is in $log" >&2
        exit 3
    fi
    # Else every start compiles what it imports where PYTHONDONTWRITEBYTECODE is set or the tree is read-only.
    "$venv/bin/python" -m compileall -q "$top/nova_perf_tuning" || true
    printf '%s\n' "$stamp $extras $top" >"$venv/.stamp"
fi
rm -f "$log"
