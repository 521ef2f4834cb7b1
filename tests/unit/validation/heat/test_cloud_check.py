# SPDX-License-Identifier: Apache-2.0
"""Which hosts and which external network the words of a user mean, and what is said where they mean none."""

from types import SimpleNamespace
from unittest import mock

from openstack import exceptions as sdk

from nova_perf_tuning import errors
from nova_perf_tuning.placement import api
from nova_perf_tuning.validation.heat import cloud_check
from tests.support import testcase


def service(host, state="up", status="enabled", reason=None):
    return SimpleNamespace(host=host, state=state, status=status, disabled_reason=reason)


class ChooseTest(testcase.TestCase):
    def setUp(self):
        super().setUp()
        self.cloud = mock.MagicMock()
        self.cloud.compute.services.return_value = [
            service("b"),
            service("a"),
            service("gone", state="down", status="disabled"),
            service("off", status="disabled"),
            service("repair", status="disabled", reason="new disk"),
        ]
        self.cloud.compute.aggregates.return_value = [
            SimpleNamespace(name="gold", hosts=["a", "off", "ironic"]),
            SimpleNamespace(name="empty", hosts=None),
        ]

    def choose(self, *words):
        return cloud_check.choose(api.Api(lambda: self.cloud), words)

    def test_words_mean_hosts(self):
        unusable = {"gone": "down", "off": "disabled", "repair": "disabled (new disk)"}
        of_gold = {"off": "disabled", "ironic": "no compute host"}
        for words, expected in (
            (["any"], ([""], {})),
            (["all"], (["a", "b"], unusable)),
            (["b", "a", "b"], (["a", "b"], {})),
            (["gold"], (["a"], of_gold)),
            (["b", "gold"], (["a", "b"], of_gold)),
        ):
            with self.subTest(words):
                self.assertEqual(expected, self.choose(*words))

    def test_words_that_mean_no_host_are_refused(self):
        for words, text in (
            (["any", "a"], "'any' alone"),
            (["gone"], "host 'gone' is down"),
            (["a", "repair"], "host 'repair' is disabled \\(new disk\\)"),
            (
                ["elsewhere"],
                "'elsewhere' is neither a host nor an aggregate; hosts are a, b, gone",
            ),
            (["empty"], "'empty' is neither a host nor an aggregate"),
        ):
            with self.subTest(words):
                self.assertRaisesRegex(errors.CloudError, text, self.choose, *words)
        self.cloud.compute.services.return_value = [service("off", status="disabled")]
        self.assertRaisesRegex(
            errors.CloudError, "none of off is up and enabled", self.choose, "all"
        )

    def test_a_keyword_that_is_also_a_name_is_refused(self):
        aggregates = self.cloud.compute.aggregates.return_value
        services = self.cloud.compute.services.return_value
        for kind in ("aggregate", "host"):
            if kind == "aggregate":
                self.cloud.compute.aggregates.return_value = [
                    *aggregates,
                    SimpleNamespace(name="all", hosts=["a"]),
                ]
            else:
                self.cloud.compute.aggregates.return_value = aggregates
                self.cloud.compute.services.return_value = [*services, service("all")]
            with self.subTest(kind):
                self.assertRaisesRegex(
                    errors.CloudError, "'all' means every host", self.choose, "all"
                )
                self.assertRaisesRegex(
                    errors.CloudError, "'all' means every host", self.choose, "b", "all"
                )
                self.assertEqual(["b"], self.choose("b")[0])

    def test_only_administrators_choose_hosts(self):
        self.cloud.compute.services.side_effect = sdk.ForbiddenException
        self.assertRaisesRegex(errors.CloudError, "--hosts any", self.choose, "all")


class ExternalNetworkTest(testcase.TestCase):
    def network(self, name, *known):
        cloud = mock.MagicMock()
        networks = [SimpleNamespace(id=f"id-{one}", name=one) for one in known]
        cloud.network.networks.return_value = networks
        return cloud_check.external_network(api.Api(lambda: cloud), name)

    def test_by_name_by_id_or_the_only_one(self):
        for name, known, expected in (
            ("", ["public"], "id-public"),
            ("other", ["public", "other"], "id-other"),
            ("id-public", ["public", "other"], "id-public"),
        ):
            with self.subTest(name):
                self.assertEqual(expected, self.network(name, *known))

    def test_none_and_several_are_refused(self):
        for name, known, text in (
            ("", [], "^the cloud has no external network .*; give --network "),
            ("x", [], "^the cloud has no external network .*; give --network "),
            ("", ["public", "other"], "has several external networks; .*: other, public$"),
            ("x", ["public"], "no external network 'x', or several .*: public$"),
        ):
            with self.subTest(known):
                self.assertRaisesRegex(errors.CloudError, text, self.network, name, *known)
