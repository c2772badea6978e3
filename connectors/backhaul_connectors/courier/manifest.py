"""What the courier says about itself."""

from backhaul_connectors.courier.settings import Settings
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="courier",
    version="1.0",
    summary="Takes what EasyPost, AfterShip, Sendcloud and others say of parcels.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL}),
    settings=Settings,
    secret_fields=frozenset({"secrets", "api_key", "api_secret"}),
)
