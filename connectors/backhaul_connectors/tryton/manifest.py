"""What the Tryton connector says about itself."""

from backhaul_connectors.tryton.settings import Settings
from backhaul_sdk import Capability, Spec

SPEC = Spec(
    name="tryton",
    version="1.0",
    summary="Stock and shipments out of Tryton, orders into it, by JSON-RPC.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"password"}),
    topics=frozenset({"order.placed", "order.cancelled"}),
)
