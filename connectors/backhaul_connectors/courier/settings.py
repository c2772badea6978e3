"""The settings of a courier: secrets, signatures, events and statuses."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

from backhaul_sdk.addresses import Network, reachable
from backhaul_sdk.contract import STRICT
from backhaul_sdk.json_paths import Expression
from backhaul_sdk.preset_files import PresetFiles
from backhaul_sdk.records import TRACKING_STATUSES

PRESETS = PresetFiles(__package__)
FEWEST_CHARACTERS = 8
API_URLS = {
    "easypost": "https://api.easypost.com",
    "aftership": "https://api.aftership.com",
    "sendcloud": "https://panel.sendcloud.sc",
    "generic": "",
}


class Signature(BaseModel):
    """How a generic courier proves that it sent a message."""

    model_config = STRICT

    method: Literal["hmac", "sha256", "token"] = Field(
        default="hmac",
        description="`hmac`: HMAC-SHA256 of the body, or of time and body. `sha256`: "
        "SHA-256 of the body, a slash and the secret. `token`: the secret itself.",
    )
    header: str = Field(
        default="x-signature", description="Header of the signature or the token."
    )
    parameter: str = Field(
        default="",
        description="Parameter of the URL that has the token, if no header has it.",
    )
    encoding: Literal["hex", "base64"] = Field(
        default="hex", description="How the signature is written."
    )
    prefix: str = Field(
        default="", description="Prefix of the signature, such as sha256=."
    )
    timestamp_header: str = Field(
        default="",
        description="Header with the seconds since 1970, signed as time.body; none "
        "means that only the body is signed.",
    )
    signature_part: str = Field(
        default="",
        description="Name of the signature in a header with several parts: v1 in "
        "t=1767225600,v1=5257a8.",
    )
    timestamp_part: str = Field(
        default="",
        description="Name of the time in a header with several parts, signed as "
        "time.body.",
    )

    @property
    def signs_time(self) -> bool:
        """Whether the signature covers a time, which has to be recent."""
        return bool(self.timestamp_header or self.timestamp_part)

    @model_validator(mode="after")
    def _fits_together(self) -> Signature:
        if self.parameter and self.method != "token":
            raise ValueError(
                'parameter needs method = "token", because only a token can be in the'
                " URL"
            )
        if self.signs_time and self.method != "hmac":
            raise ValueError('a signed time needs method = "hmac"')
        if self.timestamp_part and not self.signature_part:
            raise ValueError("if timestamp_part is set, signature_part must be set too")
        if self.timestamp_header and self.signature_part:
            raise ValueError("set timestamp_header or signature_part, not both")
        return self


class Events(BaseModel):
    """Where a generic courier's message has its events, and an event its members."""

    model_config = STRICT

    items: Expression = Field(default="[@]", description="The events of a message.")
    key: Expression = Field(default="id", description="Unique id of an event.")
    tracking_number: Expression = Field(
        default="tracking_number", description="The parcel's number."
    )
    status: Expression = Field(default="status", description="The parcel's status.")
    at: Expression = Field(default="at", description="Time of the event.")
    tracking_company: Expression = Field(
        default="carrier", description="Carrier of the parcel."
    )
    order: Expression = Field(default="order", description="Our order's number.")
    lines: Expression = Field(
        default="lines", description="Content of the parcel: sku and quantity."
    )


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "courier"`."""

    model_config = STRICT

    preset: Annotated[str, AfterValidator(PRESETS.known)] = Field(
        default="",
        description="Name of a preset: the signature, the events and the statuses of a "
        "courier. Your own settings override them. `backhaul connectors presets` lists "
        "all.",
    )
    vendor: Literal["easypost", "aftership", "sendcloud", "generic"] = Field(
        description="The courier or service that sends the messages, if no preset says "
        "it. `generic`: `signature` and `events` describe the messages."
    )
    secrets: tuple[SecretStr, ...] = Field(
        default=(),
        description="Secrets with which the courier signs its messages. Give two "
        "secrets while you replace the first by the second.",
    )
    window_seconds: float = Field(
        default=300.0,
        gt=0,
        description="Maximum difference, in seconds, between the signed time of a "
        "message and the time on this machine. Some couriers sign no time.",
    )
    on_return: Literal["park", "cancel"] = Field(
        default="park",
        description="What Backhaul does if a parcel came back. `park`: Backhaul parks "
        "a command that cancels the order, and an operator decides. `cancel`: Backhaul "
        "cancels the order after all its parcels have come back.",
    )
    ship: Literal["never", "lines", "order"] = Field(
        default="lines",
        description="What a parcel fulfills. `never`: nothing. `lines`: the order "
        "lines that the courier names. `order`: the same, and if the courier names no "
        "lines, everything in the order that is not shipped yet.",
    )
    ship_at: Literal["announced", "in_transit"] = Field(
        default="in_transit",
        description="When a parcel fulfills its order. `announced`: when the label is "
        "created. `in_transit`: when the parcel is on its way.",
    )
    statuses: dict[str, str] = Field(
        default_factory=dict,
        description="What more of the courier's words mean; empty passes a word over.",
    )
    api_key: SecretStr = Field(
        default=SecretStr(""),
        description="API key for polling; none turns polling off.",
    )
    api_secret: SecretStr = Field(
        default=SecretStr(""), description="Sendcloud's second key."
    )
    api_url: str = Field(
        default="",
        description="Base URL of the courier's API, if it is not the usual one.",
    )
    api_path: str = Field(
        default="", description="Path of a generic courier's list of parcels."
    )
    silent_seconds: float = Field(
        default=86_400.0,
        ge=0,
        description="Seconds without a message after which the courier is asked.",
    )
    fetch_path: str = Field(
        default="",
        description="Where a generic courier's message has the URL of what happened.",
    )
    answer_head: bool = Field(
        default=False,
        description="Whether a HEAD request gets the response 200. Some services send "
        "one before they accept the URL.",
    )
    signature: Signature = Field(
        default=Signature(), description="How a generic courier signs."
    )
    events: Events = Field(
        default=Events(), description="Where a generic courier's events are."
    )
    network: Network = Field(
        default=Network(),
        description="Addresses that are allowed besides public HTTPS servers.",
    )

    @property
    def label(self) -> str:
        """The courier's name in locators and reasons."""
        return self.preset or self.vendor

    @property
    def base_url(self) -> str:
        """The base URL for polling; empty if there is none."""
        return (self.api_url or API_URLS[self.vendor]).rstrip("/")

    @model_validator(mode="before")
    @classmethod
    def _with_preset(cls, given: Any) -> Any:
        settings = PRESETS.completed(given)
        if isinstance(settings, dict) and not {"vendor", "preset"} & settings.keys():
            raise ValueError(
                "set preset to the name of a courier (`backhaul connectors presets`"
                ' lists all), or set vendor = "generic" and describe the messages'
            )
        return settings

    @field_validator("secrets", mode="before")
    @classmethod
    def _from_lines(cls, value: object) -> object:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return text.split() if isinstance(text, str) else value

    @field_validator("secrets")
    @classmethod
    def _are_long(cls, secrets: tuple[SecretStr, ...]) -> tuple[SecretStr, ...]:
        if any(len(each.get_secret_value()) < FEWEST_CHARACTERS for each in secrets):
            raise ValueError(
                f"each secret must have at least {FEWEST_CHARACTERS} characters"
            )
        return secrets

    @model_validator(mode="after")
    def _can_work(self) -> Settings:
        if not self.secrets and not self.asks:
            raise ValueError(
                "the connection has neither secrets nor api_key. To receive"
                " messages, set secrets. To poll the courier, set api_key"
            )
        if wrong := set(self.statuses.values()) - {*TRACKING_STATUSES, ""}:
            known = ", ".join(TRACKING_STATUSES)
            raise ValueError(
                f"statuses has the unknown values {', '.join(sorted(wrong))}; use"
                f" {known}"
            )
        if self.fetch_path and not self.base_url:
            raise ValueError(
                "if fetch_path is set, api_url must be set too, because Backhaul"
                " fetches messages only from the host in api_url"
            )
        if self.base_url:
            reachable(self.base_url, self.network)
        return self

    @property
    def asks(self) -> bool:
        """Whether the courier's API is polled."""
        has_list = self.vendor != "generic" or bool(self.api_path and self.base_url)
        return bool(self.api_key.get_secret_value()) and has_list
