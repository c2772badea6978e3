"""What a connector says about itself."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from pydantic import ConfigDict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic import BaseModel

STRICT = ConfigDict(
    extra="forbid", frozen=True, hide_input_in_errors=True, allow_inf_nan=False
)
"""For a model of settings: nothing unknown or endless passes, no error shows a secret.
"""


class Capability(Enum):
    """What an instance does: bring records in, or carry changes out."""

    PULL = "pull"
    LISTEN = "listen"
    PUSH = "push"


def _no_meanings(_settings: Any) -> Sequence[str]:
    return ()


def _nothing_shared(_one: Any, _other: Any, _is_one_store: bool) -> str:
    return ""


class Spec(Struct, frozen=True, kw_only=True):
    """A connector's manifest; `topics` are the changes that its `push` understands.

    `settings` validates `[connectors.NAME]` without the keys that are the host's:
    `type, store, enabled, trigger, every, cron, jitter, quiet, silent_after, dry_run,
    counts, topics, begin`.
    `secret_fields` are never shown or logged.

    `meanings` returns, for valid settings, a sentence for each whose effect its name
    does not tell; `check-config` prints them.

    `shared` takes the valid settings of two instances, and whether both work for one
    store. It names what both would take, such as the files of one folder, so that it
    would be applied twice; empty where there is nothing. Such a pair does not start.

    `takes_once` says that the other side takes a `Change.id` once, however often it
    comes: what may have arrived is handed over again, and `lookup` is not asked.
    """

    name: str
    version: str
    summary: str
    capabilities: frozenset[Capability]
    settings: type[BaseModel]
    secret_fields: frozenset[str] = frozenset()
    topics: frozenset[str] = frozenset()
    takes_once: bool = False
    meanings: Callable[[Any], Sequence[str]] = _no_meanings
    shared: Callable[[Any, Any, bool], str] = _nothing_shared
