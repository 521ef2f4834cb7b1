# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration of the release notes."""

project = "nova-perf-tuning release notes"
author = "nova-perf-tuning developers"
copyright = "nova-perf-tuning developers"
extensions = ["openstackdocstheme", "reno.sphinxext"]
html_theme = "openstackdocs"
openstackdocs_auto_name = False
openstackdocs_auto_version = False
master_doc = "index"
