# SPDX-License-Identifier: Apache-2.0
"""What host work on a guest's CPU costs, shown and measured on this machine: ``tools/demo.sh --local``."""
