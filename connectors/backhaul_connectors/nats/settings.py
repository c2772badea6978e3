"""The settings of nats: servers, credentials, consumers to read, the stream to fill."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, model_validator

from backhaul_sdk.change_documents import checked_template
from backhaul_sdk.cloud_events import MessageFormat
from backhaul_sdk.extras import require_extra
from backhaul_sdk.messages import (
    BrokerSettings,
    Source,
    checked_address,
)

CREDENTIALS = "user and password, token, nkey_seed or credentials"
_NAME = re.compile(r"[A-Za-z0-9_-]{1,100}")
_TEMPLATE_SUBJECT = re.compile(r"[A-Za-z0-9_=-]+(\.[A-Za-z0-9_=-]+)*")


def _name(text: str) -> str:
    if not _NAME.fullmatch(text):
        raise ValueError(
            f"{text!r} is not the name of a stream or consumer; use letters, digits,"
            " - and _"
        )
    return text


def _template(text: str) -> str:
    shape = re.sub(r"\{\w+\}", "x", checked_template(text))
    if not _TEMPLATE_SUBJECT.fullmatch(shape):
        raise ValueError(
            f"{text!r} is not a subject such as store.{{topic}}.{{object_id}}; use"
            " words that are separated by dots, without wildcards"
        )
    return text


Name = Annotated[str, AfterValidator(_name)]
SubjectTemplate = Annotated[str, AfterValidator(_template)]


class Consumer(Source):
    """`[connectors.NAME.receive.SOURCE]`: a durable consumer and its kind of items."""

    stream: Name = Field(description="The stream.")
    consumer: Name = Field(description="Name of the durable pull consumer.")
    create: bool = Field(
        default=False,
        description="Whether Backhaul creates the consumer, and the stream, if they"
        " do not exist. It never changes an existing one.",
    )
    subject: str = Field(
        default="", description="Subject that a created consumer filters by."
    )

    @model_validator(mode="after")
    def _says_what_to_create(self) -> Consumer:
        if self.create and not self.subject:
            raise ValueError(
                "if create is true, subject must be set too, such as"
                " warehouse.shipments.>"
            )
        return self


class Publish(MessageFormat):
    """`[connectors.NAME.publish]`: the stream to which changes are published."""

    stream: Name = Field(description="The stream that stores the messages.")
    subject: SubjectTemplate = Field(
        default="store.{topic}.{object_id}",
        description="Subject of a message; may contain {topic}, {store} and"
        " {object_id}.",
    )
    create: bool = Field(
        default=False,
        description="Whether Backhaul creates the stream if it does not exist. It"
        " never changes an existing one.",
    )


class Settings(BrokerSettings):
    """`[connectors.NAME]` with `type = "nats"`."""

    servers: tuple[str, ...] = Field(
        min_length=1,
        description="URLs of the servers of one cluster, such as"
        " tls://nats.example:4222, without credentials.",
    )
    user: str = Field(default="", description="The user.")
    password: SecretStr = Field(
        default=SecretStr(""), description="The user's password."
    )
    token: SecretStr = Field(default=SecretStr(""), description="Token, without user.")
    nkey_seed: SecretStr = Field(
        default=SecretStr(""), description="Seed of an NKey (SU…)."
    )
    credentials: SecretStr = Field(
        default=SecretStr(""),
        description="Content of a .creds file: the user's JWT and seed.",
    )
    domain: str = Field(default="", description="JetStream domain, if there is one.")
    receive: dict[str, Consumer] = Field(
        default_factory=dict, description="The consumers that are read."
    )
    publish: Publish | None = Field(
        default=None, description="Where change notifications go."
    )

    @model_validator(mode="after")
    def _can_work(self) -> Settings:
        require_extra("nats", user="the connector nats")
        for server in self.servers:
            checked_address(
                server,
                ("nats", "tls"),
                CREDENTIALS,
                allow_plaintext=self.allow_plaintext,
            )
        if len({server.partition(":")[0] for server in self.servers}) > 1:
            raise ValueError("all servers must begin with tls://, or all with nats://")
        self._require_one_login()
        if not self.receive and self.publish is None:
            raise ValueError(
                "the connection has neither receive nor publish; set at least one of"
                " them"
            )
        read = [(each.stream, each.consumer) for each in self.receive.values()]
        if len(set(read)) < len(read):
            raise ValueError("two tables of receive name the same consumer")
        return self

    def _require_one_login(self) -> None:
        secrets = (self.token, self.nkey_seed, self.credentials)
        given = [each for each in secrets if each.get_secret_value()]
        if bool(self.user) != bool(self.password.get_secret_value()):
            raise ValueError(
                "only one of user and password is set; set both or neither"
            )
        if len(given) + bool(self.user) > 1:
            raise ValueError(f"set only one of {CREDENTIALS}")

    @property
    def is_encrypted(self) -> bool:
        """Whether the connection must use TLS."""
        return self.servers[0].startswith("tls://")
