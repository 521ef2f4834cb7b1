# SPDX-License-Identifier: Apache-2.0
"""The test cloud's guard of taps, in a network namespace of its own."""

import pathlib

from tests.support import patience, testcase

_GUARD = pathlib.Path(__file__).parents[3] / "tools/cloud/perf_cloud/tap-guard"
#: A tap that is made down, and one that is set down later, beside a device that is no tap.
_SCRIPT = """
flags() { ip -oneline link show "$1" | sed 's/.*<\\(.*\\)>.*/,\\1,/'; }
up() {
    for _ in $(seq 300); do case $(flags "$1") in *,UP,*) return ;; esac; sleep 0.1; done
    echo "$1 stays down"
    exit 1
}
ip tuntap add tap1 mode tap && ip tuntap add other mode tap || exit 2
"$0" & guard=$!
trap 'kill $guard' EXIT
up tap1
ip link set tap1 down && up tap1
ip tuntap add tap2 mode tap && up tap2
case $(flags other) in *,UP,*) echo "other was set up"; exit 1 ;; esac
"""


class TapGuardTest(testcase.TestCase):
    def test_taps_come_up_again_and_nothing_else_does(self) -> None:
        argv = [
            "unshare",
            "--net",
            "--pid",
            "--fork",
            "--kill-child",
            "bash",
            "-c",
            _SCRIPT,
            str(_GUARD),
        ]
        done = patience.run(argv)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
