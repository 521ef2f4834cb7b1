# SPDX-License-Identifier: Apache-2.0
import setuptools

# pyproject.toml says which pbr; a distribution has its own.
setuptools.setup(setup_requires=["pbr"], pbr=True)
