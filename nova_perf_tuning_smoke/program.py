"""``python -m nova_perf_tuning_smoke [-k PATTERN]``: run the smoke tests.

Exit code 0: none failed; 1: some did; 3: the cloud cannot be reached, or not as an administrator.
"""

from __future__ import annotations

import pathlib
import sys
import unittest
from typing import Any

import openstack
from keystoneauth1 import exceptions as auth
from openstack import exceptions

from nova_perf_tuning_smoke import cloud

USAGE = """\
usage: python -m nova_perf_tuning_smoke [-h] [-k PATTERN] [-f]

Smoke tests of nova-perf-tuning on a cloud, for an administrator: OS_CLOUD names an entry of clouds.yaml, or the
other OS_* variables say which. What they make is removed again.

  -k PATTERN  only tests whose names hold PATTERN, as ValidatorsTest
  -f          end with the first that fails

Exit code 0: none failed; 1: some did; 3: the cloud cannot be reached, or not as an administrator.

"""


def load_tests(
    loader: unittest.TestLoader, _tests: unittest.TestSuite, _pattern: str | None
) -> unittest.TestSuite:
    """Return all tests of this package."""
    directory = pathlib.Path(__file__).parent
    return loader.discover(str(directory), top_level_dir=str(directory.parent))


def unusable() -> str:
    """Return in one line why no test could do its work, else nothing; name the cloud on stderr."""
    if wrong := cloud.wrong_setting():
        return wrong
    try:
        connection: Any = openstack.connect()
        where, project = connection.config.get_auth_args().get("auth_url"), connection.current_project
        next(iter(connection.compute.services()), None)
    except auth.MissingRequiredOptions as error:
        return f"{error}; set OS_CLOUD to an entry of clouds.yaml, or the other OS_* variables"
    except exceptions.ForbiddenException:
        return "the cloud takes these credentials, but not as an administrator's, which making flavors needs"
    except (exceptions.SDKException, auth.ClientException) as error:
        return str(error)
    print(f"cloud {where}, project {project.name}", file=sys.stderr)
    return ""


def main() -> None:
    """Run them, unless help is wanted or the cloud cannot be used."""
    sys.argv[0] = "python -m nova_perf_tuning_smoke"
    if {"-h", "--help"} & set(sys.argv[1:]):
        print(USAGE + (cloud.__doc__ or "").split("\n\n", 1)[1].replace("``", ""), end="")
        return
    if reason := unusable():
        print(f"nova_perf_tuning_smoke: {' '.join(reason.split())[:500]}", file=sys.stderr)
        sys.exit(3)
    unittest.main(module=__name__, verbosity=2)
