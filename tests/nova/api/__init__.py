# SPDX-License-Identifier: Apache-2.0
"""What Nova's API, Placement and scheduler make of extra specs, traits and scores."""
