#!/bin/sh
# What the Linux client of windows_share.yaml has before runner.sh, in the same script: the share that is measured.
# heat/windows_share.yaml fills in the @WORDS@.
share='@SHARE@' domain='@DOMAIN@' credentials='@CREDENTIALS@'
mkdir -p /run/nova-perf
# smbclient reads the password from a file, so it is on no command line. A share for everybody has no file.
if [ -n "$credentials" ]; then
    (
        umask 077
        cat >"$credentials" <<'END_OF_CREDENTIALS'
username = @USER@
password = @PASSWORD@
END_OF_CREDENTIALS
        [ -z "$domain" ] || echo "domain = $domain" >>"$credentials"
    )
fi

# runner.sh asks this where there is no guest with its own script on the other side: is the share there?
# shellcheck disable=SC2317,SC2329  # runner.sh calls it
reach_peer() {
    for program in smbclient nova-perf-bench; do
        command -v "$program" >/dev/null ||
            fail "the image has no $program; use the one that tools/image/build --cloud --full makes"
    done
    set -- -N
    [ -z "$credentials" ] || set -- -A "$credentials"
    timeout 20 smbclient "$share" --configfile=/dev/null -p 445 "$@" -c ls >/run/nova-perf/share 2>&1 && return
    told=$(tail -n 1 /run/nova-perf/share)
    # What another attempt does not change.
    case $told in
        *LOGON_FAILURE* | *ACCESS_DENIED* | *BAD_NETWORK_NAME*) fail "the share $share cannot be used: $told" ;;
    esac
    echo "$told"
    return 1
}

