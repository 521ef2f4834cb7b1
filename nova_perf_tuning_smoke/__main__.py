"""``python -m nova_perf_tuning_smoke``: see :mod:`nova_perf_tuning_smoke.program`."""

import sys

try:
    from nova_perf_tuning_smoke import program
except ModuleNotFoundError as error:
    print(f"nova_perf_tuning_smoke: no {error.name}; install nova-perf-tuning[smoke]", file=sys.stderr)
    sys.exit(3)

program.main()
