# SPDX-License-Identifier: Apache-2.0
"""Sphinx configuration; built with warnings as errors by tools/test.sh and tox -e docs.

Nothing of this project is imported: doc/make_reference.py has written what is made from the code.
"""

project = "nova-perf-tuning"
author = "nova-perf-tuning developers"
copyright = "nova-perf-tuning developers"
extensions = ["openstackdocstheme"]
html_theme = "openstackdocs"
html_title = project
html_last_updated_fmt = None
openstackdocs_pdf_link = False
openstackdocs_auto_name = False
openstackdocs_auto_version = False
master_doc = "index"
exclude_patterns = []

# From these pages, not for the site alone: tools/build_package.py puts them into the wheel.
man_pages = [
    ("reference/cli", "nova-perf", "tune a KVM compute host and measure the gain", [author], 1),
    ("reference/nova-perf-agent", "nova-perf-agent", "keep a compute host tuned", [author], 1),
    (
        "reference/nova-perf-status",
        "nova-perf-status",
        "is Nova ready to run with the driver?",
        [author],
        1,
    ),
]
man_show_urls = True
