"""The NATS connector: durable consumers in, one stream out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.nats.settings import Settings
from backhaul_sdk import Capability, Spec
from backhaul_sdk.contract import TOPICS
from backhaul_sdk.messages import MessageConnector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_sdk.messages import Broker, Source


def shared(one: Settings, other: Settings, _is_one_store: bool) -> str:
    """Return which consumer both connections would read."""
    if one.domain != other.domain or not set(one.servers) & set(other.servers):
        return ""
    theirs = {(each.stream, each.consumer) for each in other.receive.values()}
    for mine in one.receive.values():
        if (mine.stream, mine.consumer) in theirs:
            return f"the consumer {mine.consumer} of the stream {mine.stream}"
    return ""


SPEC = Spec(
    name="nats",
    version="1.0",
    summary="Takes records from NATS JetStream, and publishes the store's changes.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"password", "token", "nkey_seed", "credentials"}),
    topics=frozenset(TOPICS),
    shared=shared,
)


class Nats(MessageConnector["Settings"]):
    """Durable consumers and a stream of a NATS cluster."""

    spec = SPEC

    def sources(self) -> Mapping[str, Source]:
        return self.settings.receive

    def publishes(self) -> bool:
        return self.settings.publish is not None

    async def broker(self) -> Broker:
        # Only now: a daemon without such a connection does not load the library.
        from backhaul_connectors.nats.broker import NatsBroker

        return NatsBroker(self.settings)
