# SPDX-License-Identifier: Apache-2.0
"""The store of admission on SQLite; tests/functional/database has the servers."""

from tests.support import admission_store, directories


class StoreTest(admission_store.StoreContract, directories.DirectoryCase):
    pass
