"""The settings of a scanner intake: which devices may post, and their tokens."""

from __future__ import annotations

import re
from pathlib import Path

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)

MIN_TOKEN_CHARACTERS = 16
_DEVICE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class Settings(BaseModel):
    """`[connectors.NAME]` with `type = "scanner"`."""

    # Without hiding, a mistake in one token would print all of them.
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True)

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

    @field_validator("devices", mode="before")
    @classmethod
    def _from_lines(cls, value: object) -> object:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        return parse_tokens(text) if isinstance(text, str) else value

    @field_validator("devices")
    @classmethod
    def _can_be_told_apart(cls, devices: dict[str, SecretStr]) -> dict[str, SecretStr]:
        if problem := problem_of(devices):
            raise ValueError(problem)
        return devices

    @model_validator(mode="after")
    def _has_a_device(self) -> Settings:
        if not self.devices and self.tokens_file is None:
            raise ValueError("no device may post: set devices or tokens_file")
        return self


def parse_tokens(text: str) -> dict[str, SecretStr]:
    """Read lines of name=token; blank lines and those with # are passed over.

    Raises ValueError with the number of the line, never its content.
    """
    devices: dict[str, SecretStr] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        name, found, token = (part.strip() for part in line.partition("="))
        if not found or not name or name in devices:
            raise ValueError(f"line {number} must be name=token, each name once")
        devices[name] = SecretStr(token)
    return devices


def problem_of(devices: dict[str, SecretStr]) -> str:
    """Say what is wrong with names or tokens; empty if nothing is."""
    owners: dict[str, str] = {}
    for name, secret in devices.items():
        token = secret.get_secret_value()
        if not _DEVICE.fullmatch(name):
            return f"device name {name!r} may hold letters, digits, dot, dash, _ only"
        if len(token) < MIN_TOKEN_CHARACTERS or not token.isprintable():
            return (
                f"the token of {name} must have {MIN_TOKEN_CHARACTERS} or more "
                "printable characters"
            )
        if token in owners:
            return f"{owners[token]} and {name} have the same token"
        owners[token] = name
    return ""
