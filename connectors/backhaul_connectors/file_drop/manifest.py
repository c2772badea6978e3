"""What the file drop says about itself."""

from backhaul_connectors.file_drop.exporting import COLUMNS
from backhaul_connectors.file_drop.meanings import meanings
from backhaul_connectors.file_drop.settings import Settings
from backhaul_connectors.file_drop.sharing import shared
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="file_drop",
    version="1.1",
    summary="Takes CSV, XLSX and JSON lines from a folder or an SFTP server, and puts "
    "the store's news there.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"sftp_password", "sftp_key", "sftp_passphrase"}),
    topics=frozenset(COLUMNS),
    meanings=meanings,
    shared=shared,
)
