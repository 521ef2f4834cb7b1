#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds wheel and sdist twice, in two directories, and compares them; installs the wheel into a clean environment
# beside Nova without a compiler, uses it from there, and removes it again.
#
#   tools/test_package.sh VENV     an environment with pip, setuptools, pbr, wheel, and the extras docs, validation,
#                                 cloud and agent
set -euo pipefail

venv=$(cd "$1" && pwd)
top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=tools/python_packages.sh
. "$top/tools/python_packages.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/nova-perf-package.XXXXXX")
trap 'rm -rf "$work"' EXIT

fail() {
    echo "test_package.sh: $*" >&2
    exit 1
}

# The same bytes of a clone elsewhere, under another umask, time zone and hash seed.
"$venv/bin/python" "$top/tools/build_package.py" "$work/whole" >"$work/sums.first"
clone="$work/a clone/elsewhere"
git -c safe.directory="$top" -c safe.directory="$top/.git" clone -q "$top" "$clone"
(umask 077 && TZ=Asia/Tokyo PYTHONHASHSEED=7 "$venv/bin/python" "$clone/tools/build_package.py" "$work/second") |
    sed "s|$work/second|$work/whole|" >"$work/sums.second"
[[ $(wc -l <"$work/sums.first") == 2 ]] || fail "not one wheel and one sdist: $(cat "$work/sums.first")"
diff "$work/sums.first" "$work/sums.second" || fail "two builds of one commit differ"

wheel=$(find "$work/whole" -name '*.whl')
"$venv/bin/python" -m zipfile -l "$wheel" | awk '{print $1}' >"$work/files"
for data in nova_perf_tuning/py.typed nova_perf_tuning/specs/profiles/balanced.yaml \
    nova_perf_tuning/nova/metadefs/compute-perf-tuning.json nova_perf_tuning/validation/results/results.schema.json \
    nova_perf_tuning/validation/report/templates/report.html.j2 nova_perf_tuning/validation/heat/templates/host_validation.yaml \
    share/nova-perf-tuning/devstack/plugin.sh lib/systemd/system/nova-perf-agent.service \
    lib/systemd/system/nova-perf-agent-observe.service \
    share/nova-perf-tuning/sample/nova-perf-tuning.conf.sample \
    share/man/man1/nova-perf.1 share/man/man1/nova-perf-agent.1 share/man/man1/nova-perf-status.1; do
    grep -q "$data\$" "$work/files" || fail "the wheel lacks $data"
done
if grep -q '^tests/' "$work/files"; then
    fail "the wheel would install a top-level package 'tests'"
fi
# A distribution builds from the sdist: the same files must come out.
"$venv/bin/pip" -q wheel --disable-pip-version-check --no-build-isolation --no-deps -w "$work/again" \
    "$work"/whole/*.tar.gz
"$venv/bin/python" -m zipfile -l "$work"/again/*.whl | awk '{print $1}' | sort >"$work/files.again"
diff <(sort "$work/files") "$work/files.again" || fail "the sdist makes another wheel than the tree"

# Only Nova's files matter here, not that it runs, so its 80 dependencies are left out.
# Python's own way to bring pip, ensurepip, takes five times as long.
choose_installer "$venv"
"$venv/bin/python" -m venv ${uv:+--without-pip} "$work/clean"
[[ -z $uv ]] || PACKAGES_UNCOMPILED=1 install_packages "$work/clean" pip
PACKAGES_UNCOMPILED=1 install_packages "$work/clean" --no-deps 'nova==34.0.0'
nova_files() { (cd "$work/clean" && find . -path '*/site-packages/nova/*' -type f ! -name '*.pyc' -exec sha256sum {} + | sort); }
nova_files >"$work/nova.before"
[[ $(wc -l <"$work/nova.before") -gt 1000 ]] || fail "Nova's wheel was not installed"
# Settings of pip, and a PATH without compiler, make and shell: every package comes as a wheel.
mapfile -t settings < <(env | grep -iE '^(pip|ssl|requests|http|https|no)_[a-z_]+=' || true)
no_compiler() { env -i PATH="$work/clean/bin" "${settings[@]}" "$@"; }
# What is loaded is compiled then; NumPy and SciPy as a whole would take half a minute.
unset PYTHONDONTWRITEBYTECODE
no_compiler pip -q install --disable-pip-version-check --no-compile "$wheel"
cd /
host=$top/tests/support/recorded/firecracker-2cpu-guests.tar.xz
for command in topology plan audit; do
    no_compiler nova-perf "$command" --sysroot "$host" >"$work/$command" 2>&1 || (($? == 1)) || fail "$(cat "$work/$command")"
done
# The extras bring NumPy and SciPy, which pip takes ten seconds to unpack and uv none. It may build nothing either.
if [[ -n $uv ]]; then
    PACKAGES_UNCOMPILED=1 install_packages "$work/clean" -q --no-build "${wheel}[agent,validation]"
else
    no_compiler pip -q install --disable-pip-version-check --no-compile "${wheel}[agent,validation]"
fi
no_compiler pip -q uninstall -y libvirt-python 2>"$work/uninstall"
grep -q 'not installed' "$work/uninstall" || fail "an extra brings libvirt-python, which needs a compiler"
code=0
no_compiler nova-perf validate --benchmark cpu 2>"$work/refused" || code=$?
[[ $code == 3 && $(cat "$work/refused") == *"libvirt is missing; install nova-perf-tuning[libvirt]" ]] ||
    fail "validate without libvirt: $code, $(cat "$work/refused")"
"$work/clean/bin/nova-perf" --help >"$work/help"
grep -q topology "$work/help"
"$work/clean/bin/nova-perf" topology -f json >"$work/topology.json"
"$work/clean/bin/python" -c "import json, sys; assert json.load(open(sys.argv[1]))['cpus']" "$work/topology.json"
"$work/clean/bin/nova-perf" explain --vcpus 4 --spec perf:profile=balanced >/dev/null
"$work/clean/bin/nova-perf-agent" --help >/dev/null
xz -dc "$top/tests/benchmarks/aa_guests.json.xz" >"$work/results.json"
"$work/clean/bin/nova-perf" report "$work/results.json" --output "$work/report.html" >/dev/null
grep -q '</html>' "$work/report.html" || fail "no report from the extra validation"
"$work/clean/bin/python" -c "from importlib.util import find_spec as f; assert f('nova.virt.libvirt') and f('nova.virt.perf_tuning')"
"$work/clean/bin/nova-perf" paths >"$work/paths"
path_of() { awk -v name="$1" 'NR == 1 { column = index($0, "path") } $1 == name { print substr($0, column) }' "$work/paths"; }
[[ $("$work/clean/bin/nova-perf" paths heat) == "$(path_of heat)" ]] || fail "nova-perf paths heat: not as in the list"
for name in heat metadefs profiles budgets devstack image systemd admission irqbalance dashboard alerts sample tmpfiles.d; do
    path=$(path_of "$name")
    [[ $path == "$(readlink -f "$work/clean")"/* && -e $path ]] || fail "nova-perf paths $name: $path"
done
grep -q '^#metrics_port' "$(path_of sample)/nova-perf-tuning.conf.sample"
# The agent's unit, put where systemd looks for it as install.rst says.
mkdir -p "$work/system/nova-perf-agent.service.d" "$work/tmpfiles.d"
cp "$(path_of systemd)" "$work/system/"
cp "$(path_of tmpfiles.d)/nova-perf-tuning.conf" "$work/tmpfiles.d/"
printf '[Service]\nExecStart=\nExecStart=%s\n' "$work/clean/bin/nova-perf-agent" \
    >"$work/system/nova-perf-agent.service.d/program.conf"
systemd-analyze verify --man=no "$work/system/nova-perf-agent.service" 2>"$work/unit" || fail "$(cat "$work/unit")"
[[ ! -s $work/unit ]] || fail "systemd has something to say of the unit: $(cat "$work/unit")"
bash -n "$(path_of devstack)/plugin.sh"
[[ -x $(path_of image)/build ]] || fail "image/build is not executable"

"$work/clean/bin/pip" -q uninstall -y nova-perf-tuning
nova_files >"$work/nova.after"
diff "$work/nova.before" "$work/nova.after" || fail "uninstalling changed files of Nova"
left=$(cd "$work/clean" && find . \( -path '*perf_tuning*' -o -path '*nova-perf*' \) ! -name '*.pyc' ! -name __pycache__)
[[ -z $left ]] || fail "uninstalling left $left"
echo "wheel $(basename "$wheel"): $(wc -l <"$work/files") files, two builds alike, installed without a compiler; Nova's $(wc -l <"$work/nova.after") files untouched"
