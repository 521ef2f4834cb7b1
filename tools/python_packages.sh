# SPDX-License-Identifier: Apache-2.0
# Installs Python packages with uv, in a third of pip's time, or with pip where uv cannot be had. Sourced.
#
#   choose_installer VENV               once, before the first of:
#   install_packages VENV ARGUMENT...   arguments that pip and uv share: requirements, -r, -c, -e, --no-deps,
#                                       --no-build-isolation; prints what the installer says
#
# With PACKAGES_UNCOMPILED=1 no bytecode is made, for environments that run little of what is installed.
#
# uv and its packages are kept in ${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-~/.cache}/nova-perf-tuning}. Files of an
# environment are hard links into that cache: whoever wants to change one has to write a new one.
# shellcheck shell=bash
packages_tools=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
packages_cache=${NOVA_PERF_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning}
uv='' uv_settings=()

choose_installer() {
    local settings work why
    uv=$packages_cache/uv/bin/uv uv_settings=()
    if ! settings=$("$1/bin/pip" config list | "$1/bin/python" "$packages_tools/pip_settings.py" 2>&1); then
        uv=''
        echo "== pip installs the packages: uv has nothing like its setting '${settings##*$'\n'}'" >&2
        return
    fi
    [[ -z $settings ]] || mapfile -t uv_settings <<<"$settings"
    "$uv" --version >/dev/null 2>&1 && return
    mkdir -p "$packages_cache"
    work=$(mktemp -d "$packages_cache/uv.XXXXXX")
    # A wheel or nothing: from source it would take a Rust compiler and half an hour.
    if why=$("$1/bin/pip" -q install --disable-pip-version-check --no-deps --only-binary uv --target "$work" 'uv>=0.9' \
        2>&1) && why=$("$work/bin/uv" --version 2>&1); then
        # Another one may have been put there meanwhile, and serves as well.
        "$uv" --version >/dev/null 2>&1 || { rm -rf "$packages_cache/uv" && mv -T "$work" "$packages_cache/uv"; } || true
    fi
    rm -rf "$work"
    if ! "$uv" --version >/dev/null 2>&1; then
        uv=''
        echo "== pip installs the packages: uv cannot be installed (${why##*$'\n'})" >&2
    fi
}

install_packages() (
    if [[ -z $uv ]]; then
        exec "$1/bin/pip" install --disable-pip-version-check --progress-bar off "${@:2}"
    fi
    NO_INDEX=''
    export UV_CACHE_DIR=${UV_CACHE_DIR:-$packages_cache/uv-packages} UV_PYTHON_DOWNLOADS=never "${uv_settings[@]}"
    mkdir -p "$packages_cache/tmp" # uv leaves its locks among temporary files
    local compile=--compile-bytecode
    [[ -z ${PACKAGES_UNCOMPILED:-} ]] || compile=--no-compile-bytecode
    # A tree is installed again even when nothing of it seems to have changed, as pip does.
    exec env TMPDIR="$packages_cache/tmp" "$uv" pip install --no-progress --python "$1/bin/python" "$compile" \
        --reinstall-package nova-perf-tuning ${NO_INDEX:+--no-index} "${@:2}"
)
