"""What the file drop says about itself."""

from backhaul_connectors.file_drop.settings import Settings
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="file_drop",
    version="1.0",
    summary="Takes CSV files from a folder: shipments, cancellations, stock changes.",
    capabilities=frozenset({Capability.PULL}),
    settings=Settings,
)
