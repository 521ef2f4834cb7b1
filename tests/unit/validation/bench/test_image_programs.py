"""Programs of benchmarks, and what the scripts put into guest images: they must go together."""

import pathlib
import re

import testtools

from nova_perf_tuning.validation.bench import plugins

TOOLS = pathlib.Path(__file__).parents[4] / "tools"
IMAGE = (TOOLS / "image" / "build").read_text(encoding="utf-8")
PROGRAMS = (TOOLS / "programs" / "build").read_text(encoding="utf-8")


def names(text):
    """Return the last parts of the paths in a bash array."""
    return {path.rpartition("/")[2] for path in text.split()}


def built():
    """Return variant -> programs in it, as the two scripts say."""
    [small] = re.findall(r"^programs=\(([^)]*)\)", IMAGE, re.M)
    [full] = re.findall(r"^if \[\[ -n \$full \]\]; then\n    programs\+=\(([^)]*)\)", IMAGE, re.M)
    [scripts] = re.findall(r"^scripts=\((.*)\)$", PROGRAMS, re.M)
    own = names(scripts.replace('"$here"', "")) | {"nova-perf-bench", "busybox"}
    return {"small": names(small) | own, "full": names(small) | names(full) | own}


class ImageProgramsTest(testtools.TestCase):
    def test_each_benchmark_names_the_smallest_image_that_has_its_programs(self):
        images = built()
        for benchmark in plugins.load_all():
            programs = set(benchmark.programs)
            found = next((name for name in ("small", "full") if programs <= images[name]), "own")
            self.assertEqual(found, benchmark.image_variant, benchmark.kind)
