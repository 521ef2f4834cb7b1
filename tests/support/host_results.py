# SPDX-License-Identifier: Apache-2.0
"""Result files of hosts, a plain one and any valid one."""

import datetime

from hypothesis import strategies

from nova_perf_tuning.nova import host_result

NOW = datetime.datetime(2026, 11, 21, 12, tzinfo=datetime.UTC)
NAMES = strategies.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}", fullmatch=True)
TIMES = strategies.datetimes(
    datetime.datetime(2000, 1, 1),
    datetime.datetime(2100, 1, 1),
    timezones=strategies.just(datetime.UTC),
)
VERDICTS = strategies.sampled_from(host_result.VERDICTS)
RESULTS = strategies.builds(
    host_result.HostResult,
    host=strategies.text(min_size=1, max_size=50),
    created_at=TIMES,
    verdict=VERDICTS,
    budgets=strategies.dictionaries(NAMES, VERDICTS, max_size=8),
    score=strategies.none() | strategies.floats(0, 100),
)


def result(**kwargs):
    fields = {"host": "cmp1", "created_at": NOW, "verdict": "PASS", "budgets": {}, **kwargs}
    return host_result.HostResult(**fields)
