#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# DevStack's entry into the plugin: what happens in which phase. The work is in lib/nova-perf-tuning, the variables
# are in settings, README.rst says how to use it.
#
# DevStack sources this file with the mode (stack, unstack, clean) and the phase, in stack.sh under errexit.

# The user names the plugin, and thereby its directory below $DEST.
NOVA_PERF_TREE=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# shellcheck source=devstack/lib/nova-perf-tuning
source "$NOVA_PERF_TREE/devstack/lib/nova-perf-tuning"

case "$1/${2:-}" in
    stack/pre-install)
        # No project is installed yet: a wrong variable is said before half an hour is spent.
        nova_perf_check_variables
        ;;
    stack/install)
        # Nova is installed and configured; Keystone does not run.
        nova_perf_install
        ;;
    stack/post-config)
        # nova-compute's own configuration is copied from nova.conf after this phase.
        nova_perf_configure_nova
        nova_perf_configure_agent
        ;;
    stack/extra)
        # All services run; compute hosts are not yet mapped to their cell.
        nova_perf_fill_cloud
        nova_perf_start_agent
        ;;
    stack/test-config)
        nova_perf_smoke
        ;;
    unstack/*)
        nova_perf_stop
        ;;
    clean/*)
        nova_perf_stop
        nova_perf_clean
        ;;
esac
