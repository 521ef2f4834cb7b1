# SPDX-License-Identifier: Apache-2.0
"""The store of admission on a real MariaDB and PostgreSQL that are started for it alone."""

from tests.support import admission_store, directories


class MariadbTest(admission_store.StoreContract, directories.DirectoryCase):
    kind = "mariadb"


class PostgresqlTest(admission_store.StoreContract, directories.DirectoryCase):
    kind = "postgresql"
