"""The settings of amqp: the broker, queues to read, the exchange to publish to."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, SecretStr, model_validator
from yarl import URL

from backhaul_sdk.change_documents import checked_template
from backhaul_sdk.cloud_events import MessageFormat
from backhaul_sdk.extras import require_extra
from backhaul_sdk.messages import (
    BrokerSettings,
    Source,
    checked_address,
)

SHORT = 255
"""Most bytes of a name or routing key in the protocol."""


class Queue(Source):
    """`[connectors.NAME.receive.SOURCE]`: a queue and its kind of items."""

    queue: str = Field(min_length=1, max_length=SHORT, description="The queue.")
    create: bool = Field(
        default=False,
        description="Whether Backhaul creates the queue, durable, if it does not exist."
        " It never changes an existing one.",
    )
    queue_type: Literal["quorum", "classic"] = Field(
        default="quorum", description="Type of a created queue."
    )
    exchange: str = Field(
        default="",
        max_length=SHORT,
        description="Exchange to which a created queue is bound; empty: none.",
    )
    binding_key: str = Field(
        default="#", max_length=SHORT, description="Routing key of that binding."
    )


class Publish(MessageFormat):
    """`[connectors.NAME.publish]`: the exchange to which changes are published."""

    exchange: str = Field(
        default="",
        max_length=SHORT,
        description="The exchange; empty is the default exchange, whose routing key is"
        " the name of a queue.",
    )
    routing_key: str = Field(
        default="{topic}",
        min_length=1,
        max_length=SHORT,
        description="Routing key of a message; may contain {topic}, {store} and"
        " {object_id}.",
    )
    mandatory: bool = Field(
        default=True,
        description="Whether a message that reaches no queue is kept and tried again;"
        " else the broker drops it.",
    )
    create: bool = Field(
        default=False,
        description="Whether Backhaul creates the exchange (topic, durable) if it does"
        " not exist. It never changes an existing one.",
    )

    @model_validator(mode="after")
    def _can_be_filled(self) -> Publish:
        checked_template(self.routing_key)
        if self.create and not self.exchange:
            raise ValueError("if create is true, exchange must be set too")
        return self


class Settings(BrokerSettings):
    """`[connectors.NAME]` with `type = "amqp"`."""

    url: str = Field(
        description="URL of the broker, such as amqps://rabbit.example:5671, without"
        " credentials."
    )
    vhost: str = Field(default="/", min_length=1, description="The virtual host.")
    user: str = Field(default="guest", min_length=1, description="The user.")
    password: SecretStr = Field(description="The user's password.")
    heartbeat_seconds: int = Field(
        default=30,
        ge=5,
        le=600,
        description="Interval in which both sides show that they are alive.",
    )
    receive: dict[str, Queue] = Field(
        default_factory=dict, description="The queues that are read."
    )
    publish: Publish | None = Field(
        default=None, description="Where change notifications go."
    )

    @model_validator(mode="after")
    def _can_work(self) -> Settings:
        require_extra("amqp", user="the connector amqp")
        url = checked_address(
            self.url,
            ("amqp", "amqps"),
            "user and password",
            allow_plaintext=self.allow_plaintext,
        )
        if url.path not in ("", "/"):
            raise ValueError("url must not contain the virtual host; set vhost")
        if not self.receive and self.publish is None:
            raise ValueError(
                "the connection has neither receive nor publish; set at least one of"
                " them"
            )
        queues = [each.queue for each in self.receive.values()]
        if len(set(queues)) < len(queues):
            raise ValueError("two tables of receive name the same queue")
        return self

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return self.url.startswith("amqps://")

    def full_url(self) -> URL:
        """Return the URL with virtual host and credentials, for the library alone."""
        url = URL(self.url)
        return URL.build(
            scheme=url.scheme,
            host=url.host or "",
            port=url.explicit_port,
            user=self.user,
            password=self.password.get_secret_value(),
            path=f"/{self.vhost}",
            query={"heartbeat": str(self.heartbeat_seconds)},
        )
