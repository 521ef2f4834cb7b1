#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs phases of the plugin as stack.sh, unstack.sh and clean.sh do, on files below SCRATCH:
#
#   run_phases.sh SCRATCH stack/install stack/post-config ...
#
# DevStack's functions are stood in for by those below: they write their call to SCRATCH/calls, one a line, and have
# the effect on files that DevStack's have. With DEVSTACK_TREE=DIRECTORY they are DevStack's own (its file
# functions and what that sources); then only what installs packages or asks systemd is recorded instead.
# shellcheck disable=SC2034  # DevStack's variables, which the plugin reads
set -o errexit -o errtrace
trap 'echo "run_phases.sh: a command failed at line $LINENO of ${BASH_SOURCE[0]}" >&2' ERR

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
scratch=$1
shift
calls=$scratch/calls
ini=$here/ini.py

function record { printf '%s\n' "$*" >>"$calls"; }

# DevStack's settings of a node; what a test sets in the environment wins, as local.conf does.
DEST=$scratch/opt
DATA_DIR=$DEST/data
DEVSTACK_VENV=$DATA_DIR/venv
GLOBAL_VENV=${GLOBAL_VENV:-True}
PYTHON3_VERSION=3
NOVA_BIN_DIR=$DEVSTACK_VENV/bin
GLANCE_BIN_DIR=$DEVSTACK_VENV/bin
GLANCE_API_CONF=$scratch/etc/glance/glance-api.conf
NOVA_DIR=$DEST/nova
NOVA_CONF=$scratch/etc/nova/nova.conf
NOVA_CPU_CONF=$scratch/etc/nova/nova-cpu.conf
NOVA_FILTERS=ComputeFilter,SameHostFilter
NOVA_PERF_CONF_DIR=${NOVA_PERF_CONF_DIR:-$scratch/etc/nova-perf-tuning}
NOVA_PERF_STATE_DIR=${NOVA_PERF_STATE_DIR:-$scratch/var/lib/nova-perf-tuning}
NOVA_PERF_RUN_DIR=${NOVA_PERF_RUN_DIR:-$scratch/run/nova-perf-tuning}
SYSTEMD_DIR=$scratch/etc/systemd
SYSTEMCTL="record systemctl"
REQUIREMENTS_DIR=$DEST/requirements
STACK_USER=$(id -un)
VIRT_DRIVER=${VIRT_DRIVER:-libvirt}
ENABLED_SERVICES=${ENABLED_SERVICES:-n-api,n-sch,n-cond,n-cpu,g-api,key}
DISABLED_SERVICES=${DISABLED_SERVICES:-}
PATH=$NOVA_BIN_DIR:$PATH
mkdir -p "$DEST/async" "$SYSTEMD_DIR"

if [[ -n ${DEVSTACK_TREE:-} ]]; then
    TOP_DIR=$DEVSTACK_TREE
    FILES=$TOP_DIR/files
    KILL_PATH=/bin/kill
    declare -A GITDIR SYSTEMD_ENV_VARS
    # shellcheck source=/dev/null
    source "$DEVSTACK_TREE/functions"
    # shellcheck source=/dev/null
    source "$DEVSTACK_TREE/inc/async"
    function install_package { record install_package "$@"; }
    function echo_summary { echo "$@"; }
    OFFLINE=False
    # Called as they are, and noted like the others.
    for name in define_plugin iniset async_wait setup_develop install_bindep pip_uninstall run_process; do
        eval "devstack_$(declare -f "$name")"
    done
    function define_plugin { record define_plugin "$@"; devstack_define_plugin "$@"; }
    function iniset {
        local arguments=("$@")
        [[ $1 != -sudo ]] || arguments=("${@:2}")
        record iniset "${arguments[0]#"$scratch"}" "${arguments[@]:1}"
        devstack_iniset "$@"
    }
    function async_wait { record async_wait "$@"; devstack_async_wait "$@"; }
    function setup_develop { record setup_develop "$@"; devstack_setup_develop "$@"; }
    function install_bindep { record install_bindep "$@"; devstack_install_bindep "$@"; }
    function pip_uninstall {
        record "PIP_VIRTUAL_ENV=${PIP_VIRTUAL_ENV:-}" pip_uninstall "$@"
        devstack_pip_uninstall "$@"
    }
    function run_process { record run_process "$1" "user=$4"; devstack_run_process "$@"; }
    # The environment of DevStack's requirements, of which setup_develop uses one program.
    mkdir -p "$REQUIREMENTS_DIR/.venv/bin"
    printf '#!/bin/sh\n' >"$REQUIREMENTS_DIR/.venv/bin/edit-constraints"
    chmod +x "$REQUIREMENTS_DIR/.venv/bin/edit-constraints"
else
    function define_plugin { record define_plugin "$@"; }
    function trueorfalse {
        case ${!2:-} in
            [Tt]rue | 1 | yes) echo True ;;
            [Ff]alse | 0 | no) echo False ;;
            *) echo "$1" ;;
        esac
    }
    function is_service_enabled {
        local service
        for service in "$@"; do
            [[ ,$ENABLED_SERVICES, != *,$service,* ]] || return 0
            [[ $service != nova || ,$ENABLED_SERVICES != *,n-* ]] || return 0
        done
        return 1
    }
    function enable_service {
        if [[ ,$DISABLED_SERVICES, != *,$1,* ]] && ! is_service_enabled "$1"; then
            ENABLED_SERVICES+=,$1
        fi
    }
    function die { shift; echo "$*" >&2; exit 1; }
    function echo_summary { echo "$@"; }
    function iniset {
        [[ $1 != -sudo ]] || shift
        record iniset "${1#"$scratch"}" "${@:2}"
        "$NOVA_BIN_DIR/python" -IS "$ini" set "$@" # needs none of the environment, and starts in half of the time
    }
    function async_wait { record async_wait "$@"; }
    function setup_develop { record setup_develop "$@"; }
    function install_bindep { record install_bindep "$@"; }
    function pip_uninstall { record "PIP_VIRTUAL_ENV=${PIP_VIRTUAL_ENV:-}" pip_uninstall "$@"; }
    # As write_user_unit_file does.
    function run_process {
        is_service_enabled "$1" || return 0
        printf '[Service]\nUser=%s\nExecStart=%s\n' "$4" "$2" >"$SYSTEMD_DIR/devstack@$1.service"
        record run_process "$1" "user=$4"
    }
fi
# There is no other user here; root's is what the plugin wants done.
function sudo { record sudo "${1##*/}"; "$@"; }

# shellcheck source=devstack/settings
function load_settings { source "$here/../../../../devstack/settings"; }
# shellcheck source=devstack/plugin.sh
function run_plugin { source "$here/../../../../devstack/plugin.sh" "$@"; }

load_settings
for phase in "$@"; do
    # unstack.sh and clean.sh run without errexit.
    [[ $phase == stack/* ]] || set +o errexit
    run_plugin "${phase%%/*}" "${phase#*/}"
    record "done $phase"
done
{
    # What must not leak into stack.sh.
    echo "PWD=$PWD"
    echo "OPTIONS=$-"
    echo "NOVA_FILTERS=$NOVA_FILTERS"
    echo "ENABLED_SERVICES=$ENABLED_SERVICES"
} >"$scratch/variables"
