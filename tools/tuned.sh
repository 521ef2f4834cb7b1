#!/usr/bin/env bash
# Prints a folder with Debian's TuneD in it, downloaded if missing, for tests that let it read our profiles.
#
#   PYTHONPATH=$(tools/tuned.sh)/usr/lib/python3/dist-packages /usr/bin/python3 $(tools/tuned.sh)/usr/sbin/tuned
#
# It is not installed: its service would start, and tune this machine by a profile that it thinks fit.
set -euo pipefail

if [[ ${1:-} == -h || ${1:-} == --help ]]; then
    sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "$0"
    exit 0
fi
cache=${XDG_CACHE_HOME:-$HOME/.cache}/nova-perf-tuning
packages=(tuned python3-pyudev python3-linux-procfs python3-six)

candidate() { apt-cache policy tuned | sed -n 's/^ *Candidate: \([^ (]*\).*/\1/p'; }
[[ -n $(candidate) ]] || apt-get -q update >&2
folder=$cache/tuned-$(candidate)
if [[ ! -d $folder ]]; then
    mkdir -p "$cache"
    work=$(mktemp -d "$cache/tuned.XXXXXX")
    trap 'rm -rf "$work"' EXIT
    cd "$work"
    download() { apt-get -q -o APT::Sandbox::User=root download "${packages[@]}" >&2; }
    download || { apt-get -q update >&2 && download; } # lists of a while ago name files that are gone
    for package in *.deb; do dpkg -x "$package" root; done
    mv -T root "$folder" 2>/dev/null || [[ -d $folder ]] # another one was quicker
fi
printf '%s\n' "$folder"
