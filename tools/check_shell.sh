#!/usr/bin/env bash
# Runs shellcheck over every shell script of the tree, found by its first line.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
# A tree owned by somebody else (a container, a CI job) is refused by git without safe.directory.
mapfile -t scripts < <(git -c safe.directory="$PWD" ls-files | xargs grep -d skip -lE '^#!(/bin/sh|/usr/bin/env bash)$')
((${#scripts[@]})) || { echo "check_shell.sh: found no scripts" >&2; exit 1; }
shellcheck -x "${scripts[@]}"
