#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Reads every shell script of the tree, found by its first line, with its own shell and with shellcheck.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# A tree owned by somebody else (a container, a CI job) is refused by git without safe.directory.
mapfile -t scripts < <(git -c safe.directory="$PWD" ls-files | xargs grep -d skip -lE '^#!(/bin/sh|/bin/busybox sh|/usr/bin/env bash)$')
((${#scripts[@]})) || { echo "check_shell.sh: found no scripts" >&2; exit 1; }
# DevStack sources these, whatever their first line.
for file in devstack/plugin.sh devstack/settings devstack/lib/*; do
    [[ " ${scripts[*]} " == *" $file "* ]] || { echo "check_shell.sh: $file has no first line that names bash" >&2; exit 1; }
done
for script in "${scripts[@]}"; do
    if [[ $(head -n 1 "$script") == *bash ]]; then bash -n "$script"; else sh -n "$script"; fi
done
shellcheck -x "${scripts[@]}"
