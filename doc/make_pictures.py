# SPDX-License-Identifier: Apache-2.0
"""Make the pictures of the documentation from figures that are recorded in the tree.

    python doc/make_pictures.py                          plots and the report's screenshot
    python doc/make_pictures.py --plots-only             without a browser
    python doc/make_pictures.py --record results.json    of another run, which is kept in the tree from now on

Plots and the host's picture are SVG, drawn as the commands draw them; a test draws them again and compares.
The screenshot is of the report that ``nova-perf report`` makes of recorded results, taken by Chromium.
"""

import argparse
import html
import itertools
import json
import lzma
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

import draw_packages
import yaml

from nova_perf_tuning import errors
from nova_perf_tuning.host.input.facts import reader
from nova_perf_tuning.host.model.owners import CpuSets
from nova_perf_tuning.host.picture import svg
from nova_perf_tuning.host.plan import planner
from nova_perf_tuning.validation.measure import results_file
from nova_perf_tuning.validation.report import charts, summary
from nova_perf_tuning.validation.report import text as wording
from nova_perf_tuning.validation.results import model

TOP = pathlib.Path(__file__).resolve().parents[1]
DATA = TOP / "doc/source/data"
PICTURES = TOP / "doc/source/_static"
NOISE = TOP / "tests/benchmarks/aa_guests.json.xz"

#: The run that was recorded for the report's picture, if one was; else that of the noise is shown.
RUN = DATA / "run.json.xz"
REPORT = "report.png"
HEIGHT = 1340

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WIDTH, LEFT, RIGHT, ROW, TOP_MARGIN = 800, 310, 70, 24, 56
INK, SOFT, GRID, BAND, DOT = "#17202b", "#5b6776", "#dde2e8", "#c3ccd7", "#0b7f8a"


class Plot:
    """Rows of dots with median and interval on one axis, as SVG.

    :ivar title, note: what is shown, and what has to be known of it.
    """

    def __init__(self, title: str, note: str, axis: charts.Axis) -> None:
        self._title, self._note, self._axis = title, note, axis
        self._rows: list[Iterator[str]] = []

    def add(
        self, label: str, figure: float, values: Sequence[float], ends: Sequence[float | None] = ()
    ) -> None:
        """Add a row: its values as dots, and the median and both ends of its interval where there are any."""
        top = TOP_MARGIN + ROW * len(self._rows)
        dots = [across(self._axis.place(value)) for value in values]
        marks = [None if end is None else across(self._axis.place(end)) for end in ends]
        self._rows.append(drawn(top, label, wording.number(figure), dots, *marks))

    def svg(self) -> str:
        bottom = TOP_MARGIN + ROW * len(self._rows)
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{bottom + 34}"'
            f' viewBox="0 0 {WIDTH} {bottom + 34}" font-family="sans-serif" font-size="13">',
            f'<rect width="{WIDTH}" height="{bottom + 34}" fill="#fff"/>',
            text(12, 22, self._title, INK, "start", ' font-weight="bold" font-size="15"'),
            text(12, 41, self._note, SOFT, "start", ' font-size="12"'),
        ]
        for tick in self._axis.ticks:
            at = across(self._axis.place(tick))
            lines.append(f'<path d="M{at:.1f} {TOP_MARGIN}V{bottom}" stroke="{GRID}"/>')
            lines.append(text(at, bottom + 18, f"{tick:g}", SOFT, "middle"))
        if self._axis.low < 1 < self._axis.high:
            one = across(self._axis.place(1))
            lines.append(
                f'<path d="M{one:.1f} {TOP_MARGIN}V{bottom}" stroke="{SOFT}" stroke-dasharray="3 3"/>'
            )
        return "\n".join([*lines, *itertools.chain(*self._rows), "</svg>"]) + "\n"


def drawn(
    top: float,
    label: str,
    figure: str,
    dots: Sequence[float],
    median: float | None = None,
    low: float | None = None,
    high: float | None = None,
) -> Iterator[str]:
    """Yield the elements of one row; dots lie at three heights, so that equal ones stay visible."""
    middle = top + ROW / 2
    yield text(LEFT - 12, middle + 4, label, INK, "end")
    yield text(WIDTH - 12, middle + 4, figure, INK, "end")
    if low is not None and high is not None:
        yield f'<rect x="{low:.1f}" y="{middle - 4:.1f}" width="{high - low:.1f}" height="8" fill="{BAND}"/>'
    for index, dot in enumerate(dots):
        y = top + ROW * (50 + (index % 3 - 1) * 16) / 100 if len(dots) > 1 else middle
        yield f'<circle cx="{dot:.1f}" cy="{y:.1f}" r="3.5" fill="{DOT}" fill-opacity="0.55"/>'
    if median is not None:
        yield f'<path d="M{median:.1f} {top + 4:.1f}v{ROW - 8}" stroke="{INK}" stroke-width="3"/>'


def text(x: float, y: float, words: str, colour: str, anchor: str, more: str = "") -> str:
    """Return a piece of text; nothing in it is markup."""
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}"{more}>{html.escape(words)}</text>'


def across(percent: float) -> float:
    """Return where a position of the chart's is, in pixels."""
    return LEFT + (WIDTH - LEFT - RIGHT) * percent / 100


def noise() -> str:
    """Return the plot of guests that are alike: every difference in it is noise."""
    results = recorded(NOISE)
    found = []
    for measured in summary.summarise(results):
        pair = next(
            pair
            for pair in measured.comparisons
            if (pair.arm, pair.baseline) == ("again", "untuned")
        )
        found.append((measured.label, pair.ratio, [value for _, value in pair.values]))
    axis = charts.axis([1.0, *(value for _, _, values in found for value in values)])
    plot = Plot(
        "Guests that are alike, over each other",
        "Ratio within a block of an A/A run; line: median, band: its 95 % interval over four boots. TCG, 2 CPUs.",
        axis,
    )
    for label, ratio, values in found:
        assert ratio is not None, f"{label}: too few pairs"
        plot.add(label, ratio.value, values, (ratio.value, ratio.low, ratio.high))
    return plot.svg()


def measured() -> str:
    """Return the plot of every benchmark in a guest, over the same on its host."""
    data = yaml.safe_load((DATA / "measured.yaml").read_text(encoding="utf-8"))
    [first, *_] = data["runs"]  # of the main part: the usual guests
    rows = [
        (f"{benchmark['label']}: {figure['metric']}", figure["ratio"])
        for benchmark in first["benchmarks"]
        for place, figure in enumerate(benchmark["figures"])
        if figure["ratio"] and (place == 0 or benchmark["label"] == "system")
    ]
    axis = charts.axis([1.0, *(end for _, ratio in rows for end in ratio[:3] if end)])
    run = first["run"]
    plot = Plot(
        f"Each benchmark in a guest under {run['accelerator'].upper()}, over the same on its host",
        f"Less than 1: a loss. Line: median of {run['blocks']} blocks; band: its 95 % interval.",
        axis,
    )
    for label, ratio in rows:
        plot.add(label, ratio[0], (), ratio[:3])
    return plot.svg()


def unixbench() -> str:
    """Return the plot of the published indexes of an HVM guest over a PV guest of the same distribution."""
    reports = yaml.safe_load((DATA / "published.yaml").read_text(encoding="utf-8"))["unixbench"]
    labelled = {report["label"]: report for report in reports}
    first, second = labelled["Ubuntu 14.04 on HVM"], labelled["Ubuntu 14.04, PV"]
    rows = [(name, first["tests"][name][0] / second["tests"][name][0]) for name in first["tests"]]
    rows.append(("Score", first["score"] / second["score"]))
    return ratios(
        "UnixBench 5.1.3, Ubuntu: HVM guest over PV guest",
        "Published figures, one run of each: the score hides what the tests show.",
        rows,
    )


def ratios(title: str, note: str, rows: Sequence[tuple[str, float]]) -> str:
    """Return a plot of single ratios."""
    plot = Plot(title, note, charts.axis([1.0, *(ratio for _, ratio in rows)]))
    for label, ratio in rows:
        plot.add(label, ratio, (ratio,))
    return plot.svg()


def host_now_and_planned() -> str:
    """Return the picture of a generated host with 64 CPUs and 16 guests, and of its plan."""
    with tempfile.TemporaryDirectory() as directory:
        run(
            sys.executable,
            "-m",
            "tests.support.gen_host",
            f"{directory}/host",
            "small",
            PYTHONPATH=str(TOP),
        )
        facts = reader.read_host(f"{directory}/host")
    plan = planner.plan(facts, CpuSets())
    return svg.draw(facts, plan.owners, settings=plan.settings).decode()


PLOTS = {
    "host.svg": host_now_and_planned,
    "plot-noise.svg": noise,
    "plot-measured.svg": measured,
    "plot-unixbench.svg": unixbench,
    "packages.svg": draw_packages.svg,
}


def recorded(path: pathlib.Path) -> model.Results:
    """Return recorded results."""
    with tempfile.TemporaryDirectory() as directory:
        return results_file.load(str(unpacked(path, directory)))


def unpacked(path: pathlib.Path, directory: str) -> pathlib.Path:
    """Return where in ``directory`` the results of an .xz file are."""
    file = pathlib.Path(directory, "results.json")
    file.write_bytes(lzma.decompress(path.read_bytes()))
    return file


def record(path: pathlib.Path) -> None:
    """Keep results in the tree, without the guests' XML, which the picture does not show."""
    results = results_file.to_dict(results_file.load(str(path)))
    for arm in results["environment"].get("arms", {}).values():
        arm.pop("xml", None)
    with lzma.open(RUN, "wt", encoding="utf-8") as file:
        json.dump(results, file, separators=(",", ":"))


def take_screenshot(browser: str, directory: str) -> pathlib.Path:
    """Return the picture of the report, in ``directory``."""
    page, picture = pathlib.Path(directory, "report.html"), pathlib.Path(directory, REPORT)
    results = unpacked(RUN if RUN.exists() else NOISE, directory)
    program = (
        "import sys; from nova_perf_tuning.cli import main; sys.exit(main.main(sys.argv[1:]))"
    )
    path = os.pathsep.join(filter(None, (str(TOP), os.environ.get("PYTHONPATH"))))
    run(
        sys.executable,
        "-c",
        program,
        "report",
        str(results),
        "--output",
        str(page),
        PYTHONPATH=path,
    )
    # Root has no sandbox; the profile is a directory of its own, so that nothing of the user's is read or left.
    options = (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--hide-scrollbars",
        "--force-color-profile=srgb",
    )
    where = (
        f"--user-data-dir={directory}/profile",
        f"--screenshot={picture}",
        f"--window-size=1100,{HEIGHT}",
    )
    run(browser, *options, *where, page.as_uri())
    return picture


def run(*command: str, **environment: str) -> None:
    """Run a program; what it says is shown when it fails."""
    done = subprocess.run(
        command, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        raise SystemExit(
            f"make_pictures.py: {command[0]} ended with {done.returncode}\n{done.stdout}{done.stderr}"
        )


def main() -> int:
    """Write all pictures."""
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "--plots-only", action="store_true", help="no screenshots, which need Chromium"
    )
    parser.add_argument("--output", type=pathlib.Path, default=PICTURES, metavar="DIRECTORY")
    parser.add_argument(
        "--record", type=pathlib.Path, metavar="RESULTS.json", help="the run that is to be shown"
    )
    args = parser.parse_args()
    if args.record is not None:
        try:
            record(args.record)
        except errors.PerfTuningError as error:
            print(f"make_pictures.py: {error}", file=sys.stderr)
            return 3
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None and not args.plots_only:
        print(
            "make_pictures.py: no Chromium: apt-get install chromium, or --plots-only",
            file=sys.stderr,
        )
        return 3
    for name, draw in PLOTS.items():
        (args.output / name).write_text(draw(), encoding="utf-8")
        print(args.output / name)
    if not args.plots_only:
        with tempfile.TemporaryDirectory() as directory:
            shutil.copyfile(take_screenshot(str(browser), directory), args.output / REPORT)
        print(args.output / REPORT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
