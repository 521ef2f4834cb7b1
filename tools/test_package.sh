#!/usr/bin/env bash
# Builds the wheel and the sdist, installs the wheel into a clean environment and uses it from there.
#
#   tools/test_package.sh VENV     an environment that has pip, setuptools and pbr
set -euo pipefail

venv=$1
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

# A copy, so that no build folder appears in the tree; git is what pbr takes the file list from.
git -c safe.directory="$top" clone -q "$top" "$work/tree"
"$venv/bin/pip" -q wheel --disable-pip-version-check --no-build-isolation --no-deps -w "$work" "$work/tree"
wheel=$(find "$work" -maxdepth 1 -name '*.whl')
"$venv/bin/python" -m zipfile -l "$wheel" | awk '{print $1}' >"$work/files"
for data in py.typed specs/profiles/balanced.yaml metadefs/compute-perf-tuning.json budget/results.schema.json \
    budget/templates/report.html.j2; do
    grep -q "nova_perf_tuning/$data\$" "$work/files" || { echo "the wheel lacks $data" >&2; exit 1; }
done
if grep -q '^tests/' "$work/files"; then
    echo "the wheel would install a top-level package 'tests'" >&2
    exit 1
fi
"$venv/bin/python" -m venv "$work/clean"
"$work/clean/bin/pip" -q install --disable-pip-version-check "$wheel"
cd /
"$work/clean/bin/nova-perf" --help >"$work/help"
grep -q topology "$work/help"
"$work/clean/bin/nova-perf" topology -f json >"$work/topology.json"
"$work/clean/bin/python" -c "import json, sys; assert json.load(open(sys.argv[1]))['cpus']" "$work/topology.json"
"$work/clean/bin/nova-perf" explain --vcpus 4 --spec perf:profile=balanced >/dev/null
"$work/clean/bin/pip" -q uninstall -y nova-perf-tuning
echo "wheel $(basename "$wheel"): $(wc -l <"$work/files") files"
