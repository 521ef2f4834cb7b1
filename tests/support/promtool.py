# SPDX-License-Identifier: Apache-2.0
"""Tests of rules as promtool reads them."""


def case(series, when, query, labels="{}"):
    """Return a test of promtool: at a time, a query over series of a value a minute must give 1."""
    rows = [{"series": name, "values": values} for name, values in series.items()]
    wanted = {
        "expr": query,
        "eval_time": when,
        "exp_samples": [{"labels": labels, "value": 1}],
    }
    return {"interval": "1m", "input_series": rows, "promql_expr_test": [wanted]}
