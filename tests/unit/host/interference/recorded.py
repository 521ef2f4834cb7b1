# SPDX-License-Identifier: Apache-2.0
"""Texts as kernels write them."""

import pathlib

_TEXTS = pathlib.Path(__file__).parents[3] / "support" / "recorded" / "interference"


def text(name):
    """Return a recorded text by its name."""
    return _TEXTS.joinpath(f"{name}.txt").read_text(encoding="utf-8")
