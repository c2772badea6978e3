"""What the SQL connector says about itself."""

from backhaul_connectors.sql.settings import TOPICS, Settings
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="sql",
    version="1.0",
    summary="Reads and writes tables: PostgreSQL, MariaDB, MySQL, SQLite.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"url", "password"}),
    topics=TOPICS,
)
