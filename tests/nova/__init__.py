# SPDX-License-Identifier: Apache-2.0
"""The driver in real Nova code: run by tools/nova_tests.sh where Nova is installed, not with the unit tests."""

# The first import of Nova in the process decides whether eventlet is in it.
import nova.tests.functional  # noqa: F401
