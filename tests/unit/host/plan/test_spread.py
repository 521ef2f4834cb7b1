# SPDX-License-Identifier: Apache-2.0
"""How groups are spread over CPUs: what is kept, and what moves."""

from nova_perf_tuning.host.plan import spread
from nova_perf_tuning.host.plan.layout import CpuPool
from tests.support import testcase


def pool(*cpus):
    return CpuPool(cpus, frozenset(cpus), "the host", "housekeeping")


def balanced(cpus, current, before=(), weight=1, classes=None):
    """Return where the items of one group go, beside items of weight 10 that lie on CPUs already."""
    group = spread.Group(pool(*cpus), weight, current)
    resting = {spread.Group(pool(*cpus), 10, list(before)): list(before)} if before else None
    return spread.balance([group], classes or dict.fromkeys(cpus, 0), resting)[group]


class KeepTest(testcase.TestCase):
    def test_what_lies_well_stays_and_the_rest_goes_round(self):
        for cpus, current, expected in (
            ((1, 2), [1, 1, 1, 1], [1, 1, 2, 2]),
            ((1, 2), [2, 2, 2, 1, None], [2, 2, 2, 1, 1]),
            ((1, 2), [1, 1, 2], [1, 1, 2]),
            ((1, 2, 3), [9, None, 3], [1, 2, 3]),
            ((1, 2), [2, 2, 2, 2, 1], [2, 2, 2, 1, 1]),
            ((1, 2, 3), [3, 3, 3, 3], [3, 3, 1, 2]),
        ):
            with self.subTest(current):
                self.assertEqual(expected, balanced(cpus, current))

    def test_of_crowded_cpus_the_better_one_keeps_one_more(self):
        """Both have more than their floor of two; there is one item more than that."""
        for classes, expected in (
            ({1: 0, 2: 1}, [1, 1, 1, 2, 2]),
            ({1: 1, 2: 0}, [1, 1, 2, 2, 2]),
        ):
            with self.subTest(classes):
                found = balanced(
                    (1, 2),
                    [1, 1, 1, 2, 2] if classes[1] == 0 else [1, 1, 2, 2, 2],
                    classes=classes,
                )
                self.assertEqual(expected, found)


class ImproveTest(testcase.TestCase):
    def test_every_item_leaves_a_loaded_cpu(self):
        self.assertEqual(
            [4, 5, 6], sorted(balanced((1, 2, 3, 4, 5, 6), [1, 2, 3], before=(1, 2, 3)))
        )

    def test_nothing_is_left_on_a_worse_cpu_than_need_be(self):
        classes = {1: 0, 2: 0, 3: 1, 4: 1}
        self.assertEqual([1, 2], sorted(balanced((1, 2, 3, 4), [3, 4], classes=classes)))

    def test_of_equally_loaded_cpus_the_first_is_taken(self):
        self.assertEqual([2], balanced((1, 2, 3), [1], before=(1,)))
        self.assertEqual([1, 2], balanced((1, 2, 3), [None, None]))
