"""What http_json says about itself."""

from backhaul_connectors.http_json.settings import Settings
from backhaul_sdk import Capability, Spec
from backhaul_sdk.contract import TOPICS


def shared(one: Settings, other: Settings, is_one_store: bool) -> str:
    """Return which list both instances would read for one store."""
    if not is_one_store or one.base_url.rstrip("/") != other.base_url.rstrip("/"):
        return ""
    theirs = [(each.kind, each.path, each.query) for each in other.lists.values()]
    for mine in one.lists.values():
        if (mine.kind, mine.path, mine.query) in theirs:
            return f"the list {mine.path} ({mine.kind})"
    return ""


SPEC = Spec(
    name="http_json",
    version="1.0",
    summary="Reads lists of any JSON interface, and posts the store's news to it.",
    capabilities=frozenset({Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"token"}),
    topics=frozenset(TOPICS),
    shared=shared,
)
