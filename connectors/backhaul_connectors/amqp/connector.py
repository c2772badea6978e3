"""The RabbitMQ connector: queues in, one exchange out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.amqp.settings import Settings
from backhaul_sdk import Capability, Spec
from backhaul_sdk.contract import TOPICS
from backhaul_sdk.messages import MessageConnector

if TYPE_CHECKING:
    from collections.abc import Mapping

    from backhaul_sdk.messages import Broker, Source


def shared(one: Settings, other: Settings, _is_one_store: bool) -> str:
    """Return which queue both connections would read: each would get half of it."""
    if (one.url.rstrip("/"), one.vhost) != (other.url.rstrip("/"), other.vhost):
        return ""
    theirs = {each.queue for each in other.receive.values()}
    for mine in one.receive.values():
        if mine.queue in theirs:
            return f"the queue {mine.queue}"
    return ""


SPEC = Spec(
    name="amqp",
    version="1.0",
    summary="Takes records from RabbitMQ, and publishes the store's changes to it.",
    capabilities=frozenset({Capability.LISTEN, Capability.PULL, Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"password"}),
    topics=frozenset(TOPICS),
    # AMQP has no lookup: its readers ignore a repeated message_id.
    takes_once=True,
    shared=shared,
)


class Amqp(MessageConnector["Settings"]):
    """Queues and an exchange of RabbitMQ."""

    spec = SPEC

    def sources(self) -> Mapping[str, Source]:
        return self.settings.receive

    def publishes(self) -> bool:
        return self.settings.publish is not None

    async def broker(self) -> Broker:
        # Only now: a daemon without such a connection does not load the library.
        from backhaul_connectors.amqp.broker import AmqpBroker

        return AmqpBroker(self.settings)
