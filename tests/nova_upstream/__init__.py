# SPDX-License-Identifier: Apache-2.0
"""Nova's own functional tests, unchanged, with our driver in place of Nova's: tools/nova_tests.sh --upstream."""

# The first import of Nova in the process decides whether eventlet is in it.
import nova.tests.functional  # noqa: F401
