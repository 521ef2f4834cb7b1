# SPDX-License-Identifier: Apache-2.0
"""Reports of the program sos as recorded hosts: what its commands printed becomes the files that
facts are read from.
"""
