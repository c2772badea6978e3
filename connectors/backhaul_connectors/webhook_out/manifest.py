"""What webhook_out says about itself."""

from backhaul_connectors.webhook_out.settings import Settings
from backhaul_sdk import Capability, Spec
from backhaul_sdk.contract import TOPICS

SPEC = Spec(
    name="webhook_out",
    version="1.0",
    summary="Forwards the store's news to a URL with Standard Webhooks signatures.",
    capabilities=frozenset({Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"secrets"}),
    topics=frozenset(TOPICS),
    # The specification asks so of every receiver.
    takes_once=True,
)
