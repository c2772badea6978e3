"""What http_json says about itself."""

from backhaul_connectors.http_json.settings import Settings
from backhaul_sdk import Capability, Spec
from backhaul_sdk.contract import TOPICS

SPEC = Spec(
    name="http_json",
    version="1.0",
    summary="Reads lists of any JSON interface, and posts the store's news to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"token"}),
    topics=frozenset(TOPICS),
)
