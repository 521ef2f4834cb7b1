"""Which commands are known, and when other packages are asked for theirs."""

from __future__ import annotations

from importlib import metadata
from unittest import mock

from oslotest import base

from nova_perf_tuning.cli import main

GROUP = "nova_perf_tuning.cli"


class CommandsTest(base.BaseTestCase):
    def setUp(self) -> None:
        super().setUp()
        self.ours = metadata.distribution("nova-perf-tuning")
        other = metadata.EntryPoint("other_thing", "nova_perf_tuning.cli.plan:Plan", GROUP)
        own = metadata.EntryPoint("plan", "somewhere.else:Plan", GROUP)
        manager = mock.Mock(list_entry_points=mock.Mock(return_value=[own, other]))
        self.asked = self.replaced_by(manager)

    def replaced_by(self, manager: mock.Mock) -> mock.Mock:
        patch = mock.patch("stevedore.named.NamedExtensionManager", return_value=manager)
        asked = patch.start()
        self.addCleanup(patch.stop)
        return asked

    def test_our_own_need_nobody_else(self) -> None:
        commands = main.Commands(GROUP, self.ours)
        _, name, rest = commands.find_command(["bench", "run", "cpu"])
        self.assertEqual(("bench run", ["cpu"]), (name, rest))
        self.asked.assert_not_called()

    def test_others_are_found(self) -> None:
        _, name, _ = main.Commands(GROUP, self.ours).find_command(["other", "thing"])
        self.assertEqual("other thing", name)

    def test_all_are_listed_and_ours_come_first(self) -> None:
        commands = main.Commands(GROUP, self.ours)
        listed = dict(commands)
        self.assertIn("other thing", listed)
        self.assertEqual("nova_perf_tuning.cli.plan", listed["plan"].value.partition(":")[0])
        self.assertRaises(ValueError, commands.find_command, ["nowhere"])
