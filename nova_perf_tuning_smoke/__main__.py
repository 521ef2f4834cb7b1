# SPDX-License-Identifier: Apache-2.0
"""``python -m nova_perf_tuning_smoke [-k PATTERN] [-f]``: run the smoke tests by unittest.

Exit code 0: none failed; 1: some did; 3: the cloud cannot be reached, or not as an administrator.
"""

import sys
import unittest

try:
    import openstack
except ModuleNotFoundError as error:
    print(
        f"nova_perf_tuning_smoke: no {error.name}; install nova-perf-tuning[smoke]",
        file=sys.stderr,
    )
    sys.exit(3)

try:
    next(iter(openstack.connect().compute.services()), None)
except Exception as error:  # of keystoneauth, of openstacksdk, of a variable that is no number
    print(f"nova_perf_tuning_smoke: {' '.join(str(error).split())[:500]}", file=sys.stderr)
    sys.exit(3)

# unittest shows every warning by default; those are of openstacksdk itself, eight for one test.
warnings = "ignore"
if sys.warnoptions:
    warnings = "default"

TESTS = ("nova_perf_tuning_smoke.test_api", "nova_perf_tuning_smoke.test_guest")
unittest.main(
    module=None,
    argv=["python -m nova_perf_tuning_smoke", *sys.argv[1:], *TESTS],
    verbosity=2,
    warnings=warnings,
)
