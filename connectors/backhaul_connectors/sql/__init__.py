"""Tables of PostgreSQL, MariaDB, MySQL and SQLite databases."""

from backhaul_connectors.sql.connector import Sql

__all__ = ["Sql"]
