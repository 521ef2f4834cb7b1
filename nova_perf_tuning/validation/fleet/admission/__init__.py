# SPDX-License-Identifier: Apache-2.0
"""Admission: every compute host earns its guests by a validation, and loses them without one."""
