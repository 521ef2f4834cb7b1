# SPDX-License-Identifier: Apache-2.0
"""tools/demo.sh without a cloud: wrong use is refused before anything starts; its story, also broken off."""

import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys

from tests.support import directories, patience, testcase

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
#: Sends $DEMO_SIGNAL before the first command at which $DEMO_WHEN holds, and before later ones up to $DEMO_TIMES:
#: to all of the demonstration, as a terminal does, or with $DEMO_ALONE to the script, as "kill" does.
HOOK = """
[[ $0 == */cloud/demo ]] || return 0
set -T
DEMO_SENT=0
send() {
    if ((BASHPID != $$)); then
        trap - DEBUG
    elif ((DEMO_SENT < DEMO_TIMES)) && eval "$DEMO_WHEN"; then
        ((++DEMO_SENT))
        [[ -n ${DEMO_ALONE:-} ]] && kill "-$DEMO_SIGNAL" "$$" || kill "-$DEMO_SIGNAL" -- "-$$"
    fi
}
trap 'send' DEBUG
"""
TOP = pathlib.Path(__file__).parents[3]
DEMO = TOP / "tools" / "demo.sh"


class OptionsTest(testcase.TestCase):
    def refused(self, words, *arguments):
        done = patience.run([DEMO, *arguments])
        self.assertEqual((3, ""), (done.returncode, done.stdout), done.stderr)
        self.assertIn(words, done.stderr)
        self.assertEqual(1, done.stderr.count("\n"), done.stderr)

    def test_wrong_options_are_refused_in_both_places(self):
        for place in ("--cloud", "--local"):
            self.refused("--output needs a directory", place, "--output")
            self.refused("--time-limit '15x': give 20s or more", place, "--time-limit", "15x")
            self.refused("--time-limit '19': give 20s or more", place, "--time-limit", "19")
            self.refused("unknown option --nothing", place, "--nothing")

    def test_of_the_cloud(self):
        self.refused("--blocks '0': give a number from 1", "--blocks", "0")
        self.refused("--slot-time '4s': give 5s or more", "--slot-time", "4s")
        self.refused(
            "there is no profile 'nosuch'; profiles are ai balanced ", "--profile", "nosuch"
        )
        self.refused("there is no profile '../storage'", "--profile", "../storage")

    def test_without_a_cloud(self):
        self.refused("unknown option --blocks", "--local", "--blocks", "4")
        self.refused("unknown option --profile", "--local", "--profile", "balanced")
        self.refused("--boots '1': give a number from 2 to 99", "--local", "--boots", "1")
        self.refused("--boots needs a number", "--local", "--boots")


class StepsTest(testcase.TestCase):
    def test_time_left_follows_the_machine_and_the_split_adds_up(self):
        """The first step is a download, a clock has the third; the second takes twice its time, so the fourth."""
        script = """
            . tools/steps.sh; expected=(100 30 50 20); clocked='0 2'
            next one; SECONDS=10; next two; SECONDS=70; next three; SECONDS=120; next four; SECONDS=160; split"""
        done = patience.run(["bash", "-euc", script], cwd=TOP)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        left = [
            line.split("about ")[1].split()[0]
            for line in done.stdout.splitlines()
            if "left" in line
        ]
        self.assertEqual(["200", "100", "90", "40"], left)
        rows = [line.split() for line in done.stdout.split("went:\n")[1].splitlines()]
        spent = [(row[0], row[-1]) for row in rows]
        self.assertEqual([("10", "one"), ("60", "two"), ("50", "three"), ("40", "four")], spent)


class QuotaTest(directories.DirectoryCase):
    def test_both_versions_of_cgroups(self):
        guest = shutil.copy("/bin/sleep", self.directory / "qemu-system-x86")
        for version, mount, name, limit in (
            (1, "cgroup {} cgroup rw,cpu,cpuacct 0 0", "cpu.cfs_quota_us", "40000"),
            (2, "cgroup2 {} cgroup2 rw,nsdelegate 0 0", "cpu.max", "40000 100000"),
        ):
            with self.subTest(version):
                root = self.directory / str(version)
                mounts = self.write_file(
                    "mounts", f"proc /proc proc rw 0 0\n{mount.format(root)}\n"
                )
                for file, text in (
                    ("controllers", "cpuset cpu"),
                    ("subtree_control", "cpu"),
                    ("procs", ""),
                ):
                    self.write_file(f"{version}/cgroup.{file}", f"{text}\n")
                script = f"""
                    sleep 600 & daemon=$!; {guest} 600 & guest=$!
                    . tools/cloud/quota.sh; quota_find; quota_take mine $daemon; group={root}/mine
                    echo $guest >>$group/cgroup.procs; quota_set 40; cat $group.$guest/{name}
                    rmdir() {{ rm -r "$1"; }}; quota_drop; quota_drop; kill $daemon $guest
                    ! ls -d $group* 2>/dev/null"""
                environment = {**os.environ, "NOVA_PERF_MOUNTS": mounts}
                done = patience.run(["bash", "-euc", script], cwd=TOP, env=environment)
                self.assertEqual([limit], done.stdout.splitlines(), done.stderr)


class StoryTest(directories.DirectoryCase):
    """The real script on a cloud that answers from files, with a cgroup that is a directory."""

    def setUp(self):
        super().setUp()
        self.tree, self.cloud = self.directory / "tree", self.directory / "cloud"
        for path in ("tools/steps.sh", "tools/cloud/demo", "tools/cloud/quota.sh"):
            (self.tree / path).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(TOP / path, self.tree / path)
        self.write_file("tree/nova_perf_tuning/specs/profiles/balanced.yaml", "")
        for name in ("up", "down", "run"):
            stub = f'#!/bin/sh\nexec {sys.executable} -IS {TOP}/tests/support/demo_cloud.py {name} "$@"\n'
            os.chmod(self.write_file(f"tree/tools/cloud/{name}", stub), 0o755)
        sleep = '[ "$1" = 600 ] && exec /bin/sleep 600'  # here nothing comes true by waiting
        for name, command in (("rmdir", 'exec rm -r "$@"'), ("nproc", "echo 1"), ("sleep", sleep)):
            os.chmod(self.write_file(f"bin/{name}", f"#!/bin/sh\n{command}\n"), 0o755)
        for name in ("controllers", "subtree_control", "procs"):
            self.write_file(f"cgroup/cgroup.{name}", "cpu\n" if name != "procs" else "")
        mounts = self.write_file("mounts", f"cgroup2 {self.directory}/cgroup cgroup2 rw 0 0\n")
        self.environment = {
            **os.environ,
            "PATH": f"{self.directory}/bin:{os.environ['PATH']}",
            "DEMO_CLOUD": str(self.cloud),
            "NOVA_PERF_MOUNTS": mounts,
            "TMPDIR": str(self.directory / "tmp"),
        }

    def tell(self, *verdicts, stop=0, by=signal.SIGINT):
        """Run it; return exit code, output and what was asked of the cloud. Nothing may be left."""
        shutil.rmtree(self.cloud, ignore_errors=True)
        for directory in ("cloud", "tmp"):
            (self.directory / directory).mkdir(exist_ok=True)
        (self.cloud / "verdicts").write_text("\n".join(verdicts))
        (self.cloud / "calls").touch()
        argv = [
            "bash",
            "-c",
            f'echo $$ >{self.cloud}/demo; exec "$@"',
            "sh",
            self.tree / "tools/cloud/demo",
        ]
        output = ["--output", self.directory / "report"]
        environment = {**self.environment, "DEMO_STOP": str(stop), "DEMO_SIGNAL": str(int(by))}
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True}
        running = subprocess.Popen(
            [*argv, *output], env=environment, start_new_session=True, **pipes
        )
        shown, _ = patience.finish(running)
        calls = (self.cloud / "calls").read_text().splitlines()
        self.assertEqual([], os.listdir(self.directory / "tmp"), shown)
        self.assertFalse(
            [name for name in os.listdir(self.directory / "cgroup") if "demo" in name], shown
        )
        if "up" in calls:
            self.assertIn("down", calls)
        patience.until(lambda: not self.alive(running.pid), "the end of all that it started")
        return running.returncode, shown, calls

    def alive(self, group):
        """Return the processes of a group; those that only wait for init are none."""
        return patience.run(
            ["pgrep", "--runstates", "D,R,S,T", "--pgroup", str(group)]
        ).stdout.split()

    def test_it_is_told_to_its_end(self):
        (self.directory / "tmp" / "nova-perf-demo.4194305.killed").mkdir(parents=True)
        self.write_file("cgroup/nova-perf-demo.4194305/cgroup.procs", "")
        code, shown, calls = self.tell("PASS FAIL", "PASS PASS")
        self.assertEqual((0, "down"), (code, calls.pop(0)), shown)
        words = [
            "vif_queues=many",
            "--svg",
            "perf validate",
            "--disable-on-fail",
            "--enable host2",
        ]
        places = [next(n for n, call in enumerate(calls) if word in call) for word in words]
        self.assertEqual(2, sum("perf validate" in call for call in calls))
        self.assertEqual(sorted(places[3:5]), places[3:5])
        self.assertEqual(
            ["first", "second"], [call.split()[11] for call in calls if "server create" in call]
        )
        migrated = next(n for n, call in enumerate(calls) if "--live-migration" in call)
        self.assertLess(migrated, calls.index("down"))
        self.assertEqual(1, calls.count("down"))
        self.assertEqual(11, shown.split("Where the time went:")[1].count(" % "))
        self.assertRegex(shown, r"That took \d+ s\.")

    def test_ctrl_c_and_a_terminal_that_goes_leave_nothing_at_any_moment(self):
        stops = random.Random(31).sample(range(1, 29), 6)
        for stop, by in zip(stops, SIGNALS * 2, strict=True):
            with self.subTest(stop, by=by):
                code, shown, _calls = self.tell("PASS FAIL", "PASS PASS", stop=stop, by=by)
                self.assertEqual(130, code, shown)

    def test_a_second_signal_does_not_end_the_removal(self):
        self.environment["DEMO_AGAIN"] = "1"
        for by in SIGNALS:
            with self.subTest(by=by):
                code, shown, calls = self.tell("PASS FAIL", "PASS PASS", stop=5, by=by)
                self.assertEqual((130, 1), (code, calls.count("down")), shown)

    def test_signals_between_two_commands_leave_nothing(self):
        """Also where the script has hardly begun, and one at each command of its removal."""
        # It ends early by itself.
        self.environment.update(BASH_ENV=self.write_file("hook", HOOK), DEMO_LIE="accepted")
        removes = '[[ " ${FUNCNAME[*]} " == *" finish "* ]]'
        for moment, when, times in (
            ("its options", '[[ $BASH_COMMAND == "known_profile "* ]]', 1),
            ("its directory is there", 'compgen -G "$TMPDIR/nova-perf-demo.*" >/dev/null', 1),
            ("it begins to remove", removes, 1),
            ("it removes", removes, 100),
        ):
            for by in SIGNALS:
                with self.subTest(moment, by=by):
                    self.environment.update(DEMO_WHEN=when, DEMO_TIMES=str(times))
                    code, shown, _calls = self.tell("PASS FAIL", by=by)
                    self.assertEqual(130, code, shown)

    def test_what_limits_guests_has_ended_before_their_groups_are_removed(self):
        """The script is ended while it makes a group, which takes it a second."""
        at_once = """read() { [[ $1 != -rt ]] || return 1; builtin read "$@"; }"""
        when = "[[ -e $DEMO_CLOUD/making ]] && touch $DEMO_CLOUD/sent"
        self.environment.update(BASH_ENV=self.write_file("hook", HOOK + at_once))
        self.environment.update(DEMO_WHEN=when, DEMO_TIMES="1", DEMO_ALONE="1")
        guest = shutil.copy("/bin/sleep", self.directory / "qemu-system-x86")
        slow = """#!/bin/bash
            if [[ $2 == */cgroup/nova-perf-demo.*.* ]]; then
                touch $DEMO_CLOUD/making
                until [[ -e $DEMO_CLOUD/sent ]]; do /bin/sleep 0.05; done
                for ((turn = 0; turn < 20; turn++)); do [[ ! -d ${2%.*} ]] || /bin/sleep 0.05; done
            fi
            exec /bin/mkdir "$@"
            """
        for name, script in (
            ("sleep", f'#!/bin/sh\n[ "$1" != 600 ] || exec {guest} 600\n'),
            ("mkdir", slow),
        ):
            os.chmod(self.write_file(f"bin/{name}", script), 0o755)
        code, shown, _calls = self.tell("PASS FAIL", "PASS PASS", by=signal.SIGTERM)
        self.assertEqual(130, code, shown)
        self.assertTrue((self.cloud / "sent").exists())

    def test_a_cloud_that_does_not_as_it_should_ends_it(self):
        for lie in ("accepted", "reason", "trait", "placed", "untuned"):
            with self.subTest(lie):
                self.environment["DEMO_LIE"] = lie
                code, shown, _calls = self.tell("PASS FAIL", "PASS PASS")
                self.assertEqual(3, code, shown)

    def test_an_output_that_cannot_be_used_is_refused(self):
        for make, words in (
            ("touch", "no directory"),
            ("mkdir", "another demonstration writes there"),
        ):
            output = self.directory / make
            getattr(output, make)()
            argv = ["flock", output, self.tree / "tools/cloud/demo", "--output", output]
            done = patience.run(argv, env=self.environment)
            self.assertEqual((3, ""), (done.returncode, done.stdout))
            self.assertIn(f"--output {output}: {words}", done.stderr)

    def test_other_verdicts_are_measured_once_more_and_end_it(self):
        for verdicts, code, count in (
            (("PASS PASS",), 3, 2),
            (("PASS INCONCLUSIVE", "PASS FAIL", "FAIL FAIL"), 1, 4),
        ):
            with self.subTest(verdicts):
                ended, shown, calls = self.tell(*verdicts)
                self.assertEqual(code, ended, shown)
                self.assertEqual(count, sum("perf validate" in call for call in calls))
