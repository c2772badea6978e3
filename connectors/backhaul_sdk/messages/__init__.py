"""What connectors for message brokers share.

`MessageConnector` is their base. It receives messages, submits their records to the
host, and acknowledges them after its commit; and it publishes change notifications.
A connector for one kind of broker adds its settings and a `Broker`.
"""

from backhaul_sdk.change_documents import checked_template, document_of, filled
from backhaul_sdk.messages.broker import (
    Broker,
    BrokerFailed,
    Message,
    Publisher,
    Subscription,
)
from backhaul_sdk.messages.connector import MessageConnector
from backhaul_sdk.messages.settings import (
    BrokerSettings,
    Source,
    checked_address,
)

__all__ = [
    "Broker",
    "BrokerFailed",
    "BrokerSettings",
    "Message",
    "MessageConnector",
    "Publisher",
    "Source",
    "Subscription",
    "checked_address",
    "checked_template",
    "document_of",
    "filled",
]
