"""The grid of slots: arms never meet, get the same share, and the runner's shell works out the same."""

import pathlib
import re
import subprocess

import hypothesis
import testtools
from hypothesis import strategies

from nova_perf_tuning.validation.cloud import model, stacks
from tests.unit.validation.cloud import documents

RUNNER = pathlib.Path(stacks.__file__).parent / "heat" / "runner.sh"
grids = strategies.builds(model.Grid, strategies.integers(1, 8), strategies.integers(3, 7200))


class GridTest(testtools.TestCase):
    @hypothesis.given(grids, strategies.integers(0, 10**8))
    def test_every_block_has_every_arm_once(self, grid, block):
        indexes = range(block * grid.arms, (block + 1) * grid.arms)
        self.assertEqual(list(range(grid.arms)), sorted(grid.arm(index) for index in indexes))
        self.assertEqual({block}, {grid.block(index) for index in indexes})

    @hypothesis.given(grids, strategies.integers(0, 10**8))
    def test_odd_blocks_are_even_ones_mirrored(self, grid, block):
        orders = [
            [grid.arm(index) for index in range(number * grid.arms, (number + 1) * grid.arms)]
            for number in (block, block + 1)
        ]
        self.assertEqual(orders[0], orders[1][::-1])


class RunnerTest(testtools.TestCase):
    """The function of the shell script itself, by busybox, which the guest has."""

    def next_slot(self, grid, arm, now, start):
        [function] = re.findall(
            r"^next_slot\(\) \{.*?^\}", RUNNER.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL
        )
        script = (
            f"now_cs() {{ echo {now}00; }}\nstart={start} slot_s={grid.length_s} arms={grid.arms} arm={arm}\n"
            f"{function}\nnext_slot"
        )
        done = subprocess.run(["busybox", "sh", "-c", script], capture_output=True, text=True, check=True)
        return int(done.stdout)

    @hypothesis.settings(deadline=None, max_examples=60)
    @hypothesis.given(
        grids, strategies.integers(10**9, 4 * 10**9), strategies.integers(-500, 500), strategies.data()
    )
    def test_same_slot_as_here(self, grid, now, ahead, data):
        arm = data.draw(strategies.integers(0, grid.arms - 1))
        start = data.draw(strategies.sampled_from([0, now + ahead]))
        # The runner adds a second to its clock: a slot that begins this very moment is not taken any more.
        self.assertEqual(
            documents.following(grid, arm, max(now + 1, start)), self.next_slot(grid, arm, now, start)
        )
