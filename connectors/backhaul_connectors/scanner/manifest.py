"""What the scanner says about itself."""

from backhaul_connectors.scanner.settings import Settings
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="scanner",
    version="1.1",
    summary="Takes scans over HTTP, TCP and MQTT: picked, packed, received, counted.",
    capabilities=frozenset({Capability.LISTEN}),
    settings=Settings,
    secret_fields=frozenset({"devices", "mqtt_password"}),
)
