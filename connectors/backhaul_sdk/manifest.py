"""What a connector says about itself."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pydantic import BaseModel


class Capability(Enum):
    """How records come in."""

    PULL = "pull"
    LISTEN = "listen"


@dataclass(frozen=True, slots=True, kw_only=True)
class Spec:
    """A connector's manifest.

    `settings` validates `[connectors.NAME]` without `type` and the keys that the host
    knows (`every`, `store`, `enabled`). `secret_fields` are never shown or logged.
    """

    name: str
    version: str
    summary: str
    capabilities: frozenset[Capability]
    settings: type[BaseModel]
    secret_fields: frozenset[str] = frozenset()
