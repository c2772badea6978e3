"""The settings of webhook_out: where to, and what it is signed with."""

from __future__ import annotations

from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from backhaul_connectors.webhook_out.signing import key_of
from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.manifest import STRICT


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "webhook_out"`."""

    # Without hiding, a mistake in one secret would print all of them.
    model_config = STRICT

    url: str = Field(description="Where the news is posted to.")
    secrets: tuple[SecretStr, ...] = Field(
        min_length=1,
        description="Secrets (whsec_ and Base64) that each message is signed with; "
        "two while one replaces the other.",
    )
    answer_seconds: float = Field(
        default=15.0, gt=0, le=120, description="Seconds that the receiver may take."
    )
    network: Network = Field(
        default=Network(),
        description="What may be reached besides public HTTPS servers.",
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
