"""The settings of a scanner: interfaces, devices and their tokens."""

from __future__ import annotations

import hmac
import re
import stat
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import (
    BaseModel,
    Field,
    SecretStr,
    StringConstraints,
    field_validator,
    model_validator,
)

from backhaul_sdk import CheckFailed
from backhaul_sdk.contract import STRICT
from backhaul_sdk.extras import missing_extra

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping


MIN_TOKEN_CHARACTERS = 16
_DEVICE = r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}"
DeviceName = Annotated[str, StringConstraints(pattern=f"^{_DEVICE}$")]
Port = Annotated[int, Field(ge=0, le=65_535)]
OPEN_TO_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "scanner"`."""

    # Otherwise an error in one token would print all of them.
    model_config = STRICT

    devices: dict[str, SecretStr] = Field(
        default_factory=dict,
        description="Token of each device, at least 16 characters; or lines of "
        "name=token.",
    )
    tokens_file: Path | None = Field(
        default=None,
        description="File with more devices, a line of name=token each; read at start.",
    )
    dedupe_seconds: float = Field(
        default=10.0,
        ge=0,
        description="Seconds in which the same scan of a device without sequence "
        "numbers counts once.",
    )
    lost_devices: tuple[DeviceName, ...] = Field(
        default=(),
        description="Devices with a token that were lost: the shop-floor page on them "
        "deletes its token and the scans that it did not send.",
    )
    max_age_days: float = Field(
        default=14.0,
        gt=0,
        le=365,
        description="Days for which a device may keep a scan before it sends it; an "
        "older one goes to quarantine.",
    )
    folder: Path | None = Field(
        default=None,
        description="Folder of its own for open picks and counts, and finished counts; "
        "without it nothing can be picked or counted.",
    )
    first_mode: Literal["", "pick", "pack", "receive", "count"] = Field(
        default="",
        description="What a code means from a device that says no mode and has scanned "
        "none.",
    )
    numeric_skus: bool = Field(
        default=False,
        description="Whether SKUs may be numbers as long as a GTIN; then no check "
        "digit of a plain number is verified.",
    )
    tcp_port: Port | None = Field(
        default=None,
        description="Port on which devices send lines; 0 takes any. None: no lines.",
    )
    tcp_host: str = Field(
        default="127.0.0.1",
        description="Address for lines; without TLS that of one network only.",
    )
    tcp_certificate: Path | None = Field(
        default=None, description="Certificate chain (PEM): lines are taken over TLS."
    )
    tcp_key: Path | None = Field(
        default=None, description="Key (PEM), if it is not in tcp_certificate."
    )
    tcp_addresses: dict[DeviceName, str] = Field(
        default_factory=dict,
        description="Address of each device that sends lines without a token.",
    )
    tcp_beeps: bool = Field(
        default=False,
        description="Whether each answer to a code that came as a line ends with BEL "
        "characters: 1 accepted, 2 send again, 3 refused.",
    )
    mqtt_host: str = Field(default="", description="The broker; empty: no MQTT.")
    mqtt_port: Port = Field(default=8883, description="The broker's port.")
    mqtt_tls: bool = Field(
        default=True, description="Whether TLS is used to the broker."
    )
    mqtt_ca_file: Path | None = Field(
        default=None,
        description="Certificates (PEM) that vouch for the broker; else the system's.",
    )
    mqtt_username: str = Field(default="", description="User name at the broker.")
    mqtt_password: SecretStr = Field(
        default=SecretStr(""), description="Password at the broker."
    )
    mqtt_client_id: str = Field(
        default="",
        description="Name of our session at the broker; `backhaul-` and the "
        "instance's name if empty.",
    )
    mqtt_topic: str = Field(
        default="scanners/+/scan",
        description="Topic of the scans; `+` is the device. Answers go to the same "
        "with `reply` at the end.",
    )
    mqtt_devices: tuple[DeviceName, ...] = Field(
        default=(), description="Devices whose scans are taken from the broker."
    )

    @field_validator("devices", mode="before")
    @classmethod
    def _from_lines(cls, value: object) -> object:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return parse_tokens(text) if isinstance(text, str) else value

    @field_validator("devices")
    @classmethod
    def _are_distinct(cls, devices: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if problem := problem_of(devices):
            raise ValueError(problem)
        return devices

    @field_validator("tcp_addresses")
    @classmethod
    def _are_addresses(cls, addresses: dict[str, str]) -> dict[str, str]:
        plain = {name: str(ip_address(text)) for name, text in addresses.items()}
        if len(set(plain.values())) < len(plain):
            raise ValueError(
                "two devices have the same address; give each device its own address"
            )
        return plain

    @field_validator("mqtt_topic")
    @classmethod
    def _names_the_device(cls, topic: str) -> str:
        levels = topic.split("/")
        if levels.count("+") != 1 or levels[-1] in ("+", "reply") or "#" in topic:
            raise ValueError(
                "must contain the level `+` once, and not as the last level, such"
                " as a/+/scan"
            )
        return topic

    @model_validator(mode="after")
    def _is_safe(self) -> Settings:
        if problem := _problem_of_ways(self) or _problem_of_lines(self):
            raise ValueError(problem)
        if self.first_mode in ("pick", "count") and self.folder is None:
            raise ValueError(f"first_mode {self.first_mode} needs folder")
        if problem := _problem_of_broker(self):
            raise ValueError(problem)
        return self


def _problem_of_ways(settings: Settings) -> str:
    named = settings.devices or settings.tokens_file is not None
    if named or settings.tcp_addresses or settings.mqtt_devices:
        return ""
    return (
        "no device is allowed: set devices or tokens_file, tcp_addresses or "
        "mqtt_devices"
    )


def _problem_of_lines(settings: Settings) -> str:
    """Return what is wrong with lines: without TLS only known addresses are safe."""
    if settings.tcp_port is None:
        unused = settings.tcp_addresses or settings.tcp_certificate
        return (
            "tcp_port is missing; set it to the port on which scanners connect"
            if unused
            else ""
        )
    if settings.tcp_certificate is not None:
        return ""
    if not settings.tcp_addresses:
        return (
            "scanners that connect by TCP need tcp_certificate (tokens over TLS) or"
            " tcp_addresses"
        )
    try:
        everywhere = ip_address(settings.tcp_host).is_unspecified
    except ValueError:
        return "tcp_host must be an address of this machine, because TLS is off"
    if everywhere:
        return (
            "tcp_host must be the address of one network and not of all, because"
            " TLS is off"
        )
    return ""


def _problem_of_broker(settings: Settings) -> str:
    if not settings.mqtt_host:
        return "mqtt_host is missing" if settings.mqtt_devices else ""
    if missing := missing_extra("mqtt"):
        return f"mqtt_host needs {missing}"
    if not settings.mqtt_devices:
        return "mqtt_devices is empty; name the devices whose scans Backhaul accepts"
    if settings.mqtt_password.get_secret_value() and not settings.mqtt_tls:
        return "mqtt_password would be sent without encryption; set mqtt_tls"
    return ""


def parse_tokens(text: str) -> dict[str, SecretStr]:
    """Parse lines of name=token; skip blank lines and comments (#).

    Raises ValueError with the number of the line, never its content.
    """
    devices: dict[str, SecretStr] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, found, token = (part.strip() for part in line.partition("="))
        if not found or not name or name in devices:
            raise ValueError(
                f"line {number} must be name=token, and each name must occur only once"
            )
        devices[name] = SecretStr(token)
    return devices


def problem_of(devices: dict[str, SecretStr]) -> str:
    """Return what is wrong with names or tokens; empty if nothing is."""
    owners: dict[str, str] = {}
    for name, secret in devices.items():
        token = secret.get_secret_value()
        if not re.fullmatch(_DEVICE, name):
            return (
                f"the device name {name!r} must contain only letters, digits, dots,"
                " dashes and _"
            )
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isprintable():
            return (
                f"the token of {name} must have {MIN_TOKEN_CHARACTERS} or more "
                "printable characters"
            )
        if token in owners:
            return f"{owners[token]} and {name} have the same token"
        owners[token] = name
    return ""


class Devices:
    """The tokens of all devices; its repr shows none of them.

    The devices in `lost` are refused, and recognized by `lost_of` alone.
    """

    def __init__(
        self, tokens: Mapping[str, SecretStr], lost: Collection[str] = ()
    ) -> None:
        self._tokens = tokens
        self._lost = frozenset(lost)

    def __repr__(self) -> str:
        return f"Devices({', '.join(self._tokens)})"

    def of(self, headers: Mapping[str, str]) -> str | None:
        """Return the device with the token in the headers, or None."""
        found = self._named(headers)
        return None if found in self._lost else found

    def lost_of(self, headers: Mapping[str, str]) -> str | None:
        """Return the lost device with the token in the headers, or None."""
        found = self._named(headers)
        return found if found in self._lost else None

    def of_token(self, given: str) -> str | None:
        """Return the device that this token belongs to, or None."""
        found = self._with(given)
        return None if found in self._lost else found

    def _named(self, headers: Mapping[str, str]) -> str | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        found = self._with(given)
        return found if scheme.lower() == "bearer" else None

    def _with(self, given: str) -> str | None:
        presented = given.strip().encode("utf-8", "surrogateescape")
        found = None
        # Every token is compared, so that the duration reveals nothing.
        for name, token in self._tokens.items():
            expected = token.get_secret_value().encode("utf-8")
            if hmac.compare_digest(presented, expected):
                found = name
        return found


def read_devices(settings: Settings) -> Devices:
    """Return the devices of the settings and of the file. Raises CheckFailed."""
    tokens = dict(settings.devices)
    if settings.tokens_file is not None:
        tokens |= _read(settings.tokens_file)
    if problem := problem_of(tokens):
        raise CheckFailed(problem)
    if unknown := set(settings.lost_devices) - tokens.keys():
        raise CheckFailed(
            f"lost_devices has {min(unknown)}, which has no token: keep the token of a"
            " lost device, so that the page on it deletes its scans"
        )
    return Devices(tokens, settings.lost_devices)


def _read(file: Path) -> dict[str, SecretStr]:
    try:
        mode = stat.S_IMODE(file.stat().st_mode)
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        reason = error.strerror or "unknown"
        raise CheckFailed(f"{file} cannot be read: {reason.lower()}") from None
    except UnicodeDecodeError:
        # The original error would show bytes of the file.
        raise CheckFailed(f"{file} is not UTF-8 text") from None
    if mode & OPEN_TO_OTHERS:
        raise CheckFailed(f"other users have access to {file}; run: chmod 600 {file}")
    try:
        tokens = parse_tokens(text)
    except ValueError as error:
        raise CheckFailed(f"{file}: {error}") from None
    if not tokens:
        raise CheckFailed(
            f"{file} contains no device; write one line name=token for each device"
        )
    return tokens
