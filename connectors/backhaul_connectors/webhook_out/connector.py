"""Posts each change to one URL, signed as Standard Webhooks specifies."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from backhaul_sdk import Capability, Connector, NotSent, Rejected, Spec, Uncertain
from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.calls import Caller, NeverSent, NoAnswer, outcome_of
from backhaul_sdk.change_documents import document_of
from backhaul_sdk.clock import seconds_since_1970
from backhaul_sdk.cloud_events import HttpCloudEvents, http_message
from backhaul_sdk.contract import STRICT, TOPICS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from backhaul_sdk import Change, Pushed
    from backhaul_sdk.calls import Answer


PREFIX = "whsec_"
KEY_BYTES = (24, 64)


def key_of(secret: SecretStr) -> bytes:
    """Return the key of a secret. Raises ValueError, which does not show the secret."""
    text = secret.get_secret_value().removeprefix(PREFIX)
    try:
        key = base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError("each secret must be whsec_ and then text in Base64") from None
    fewest, most = KEY_BYTES
    if not fewest <= len(key) <= most:
        raise ValueError(
            f"each secret must be {fewest} to {most} random bytes in Base64; to"
            " create a secret, run: openssl rand -base64 32"
        )
    return key


def signatures(
    secrets: Sequence[SecretStr], message_id: str, timestamp: int, body: bytes
) -> str:
    """Return the header `webhook-signature`: a signature by each secret."""
    signed = f"{message_id}.{timestamp}.".encode() + body
    digests = (
        hmac.new(key_of(secret), signed, hashlib.sha256).digest() for secret in secrets
    )
    return " ".join(f"v1,{base64.b64encode(each).decode()}" for each in digests)


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "webhook_out"`."""

    # Otherwise an error in one secret would print all of them.
    model_config = STRICT

    url: str = Field(description="URL that change notifications are posted to.")
    secrets: tuple[SecretStr, ...] = Field(
        min_length=1,
        description="Secrets (whsec_ and Base64) that each message is signed with; "
        "two while one replaces the other.",
    )
    format: Literal["plain", "cloudevents"] = Field(
        default="plain",
        description="What a message is: `plain` is Backhaul's own JSON document, "
        "`cloudevents` is a CloudEvent 1.0. Both are signed.",
    )
    cloudevents: HttpCloudEvents = Field(
        default=HttpCloudEvents(),
        description="How messages become CloudEvents, with the format `cloudevents`.",
    )
    answer_seconds: float = Field(
        default=15.0,
        gt=0,
        le=120,
        description="Timeout of the receiver's answer, in seconds.",
    )
    network: Network = Field(
        default=Network(),
        description="Addresses that are allowed besides public HTTPS servers.",
    )

    @field_validator("secrets", mode="before")
    @classmethod
    def _from_lines(cls, value: object) -> object:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return text.split() if isinstance(text, str) else value

    @field_validator("secrets")
    @classmethod
    def _are_keys(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        for secret in secrets:
            key_of(secret)
        return secrets

    @model_validator(mode="after")
    def _may_be_called(self) -> Settings:
        reachable(self.url, self.network)
        return self


SPEC = Spec(
    name="webhook_out",
    version="1.0",
    summary="Forwards the store's changes to a URL with Standard Webhooks signatures.",
    capabilities=frozenset({Capability.PUSH}),
    settings=Settings,
    secret_fields=frozenset({"secrets"}),
    topics=frozenset(TOPICS),
    # The specification requires this of every receiver.
    takes_once=True,
)


class WebhookOut(Connector["Settings"]):
    """A receiver of change notifications.

    `clock` returns the seconds since 1970 for the timestamp of each message.
    """

    spec = SPEC

    def __init__(
        self,
        instance: str,
        settings: Settings,
        *,
        clock: Callable[[], float] = seconds_since_1970,
    ) -> None:
        super().__init__(instance, settings)
        self._clock = clock
        self._caller = Caller(settings.network, answer_seconds=settings.answer_seconds)

    async def check(self) -> None:
        self._caller.check(self.settings.url)

    async def open(self) -> None:
        await self.check()
        await self._caller.open()

    async def close(self) -> None:
        await self._caller.close()

    async def push(self, change: Change) -> Pushed:
        message_id = _message_id(change.id)
        own_headers, body = self._message(change, message_id)
        timestamp = int(self._clock())
        headers = {
            **own_headers,
            "webhook-id": message_id,
            "webhook-timestamp": str(timestamp),
            "webhook-signature": signatures(
                self.settings.secrets, message_id, timestamp, body
            ),
        }
        if change.traceparent is not None:
            headers["traceparent"] = change.traceparent
        try:
            answer = await self._caller.call(
                "POST", self.settings.url, headers=headers, body=body
            )
        except NeverSent as error:
            return NotSent(str(error))
        except NoAnswer as error:
            return Uncertain(str(error))
        return _outcome(answer)

    def _message(self, change: Change, message_id: str) -> tuple[dict[str, str], bytes]:
        if self.settings.format == "cloudevents":
            return http_message(change, message_id, self.settings.cloudevents)
        return {"Content-Type": "application/json"}, document_of(change)


def _outcome(answer: Answer) -> Pushed:
    if answer.status == 410:
        return Rejected("the receiver refuses all further messages (410)")
    return outcome_of(answer)


def _message_id(change_id: str) -> str:
    # A point separates the parts of what is signed.
    return change_id.replace(".", ":")
