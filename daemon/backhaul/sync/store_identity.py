"""Checks that an address is the platform and that the key is the store's."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

import msgspec
from loguru import logger
from msgspec.structs import replace

from backhaul.errors import (
    Busy,
    ConfigurationError,
    CorruptData,
    Finding,
    OtherStore,
    PlatformUnavailable,
    Unusable,
)
from backhaul.platform.client import LISTS, StoreFacts
from backhaul.platform.transport import InDoubt, NotSent

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from backhaul.platform.client import ShopClient
    from backhaul.store.contract import Marks


class ReadsMarks(Protocol):
    """Where what was learnt is read."""

    async def get(self, name: str) -> str | None:
        """Return the mark of this name, or None."""
        ...


async def known_facts(name: str, marks: ReadsMarks) -> StoreFacts | None:
    """Return what an earlier start learnt; None before the first contact.

    Raises CorruptData where it cannot be read: asked anew, another store might answer,
    and the mirror become that one's.
    """
    known = await marks.get(_mark(name))
    try:
        return None if known is None else msgspec.json.decode(known, type=StoreFacts)
    except msgspec.MsgspecError as error:
        raise CorruptData(
            f"the database is damaged: which store {name} is cannot be read ({error});"
            " stop the daemon and put a backup in its place: backhaul restore FILE"
        ) from None


def _mark(name: str) -> str:
    return f"facts:{name}"


async def learn_facts(
    name: str, base_url: str, client: ShopClient, marks: Marks, mirror: Path
) -> StoreFacts:
    """Return what is known of the store, asking the platform for it.

    Raises PlatformUnavailable or ConfigurationError at the first contact only, and
    OtherStore when it is not the one that `mirror`, the database, is of.
    """
    known = await known_facts(name, marks)
    if known is not None:
        known = replace(known, tracking=client.tracking)
    try:
        await _require_platform(name, base_url, client)
        facts = await client.facts()
    except (PlatformUnavailable, ConfigurationError, NotSent, InDoubt, Unusable) as e:
        if known is None:
            raise _fatal(name, base_url, e) from None
        logger.bind(action="store.unreachable", store=name).warning("{}", e)
        return known
    if known is not None and facts == StoreFacts(tracking=client.tracking):
        return known
    require_same(name, base_url, known, facts, mirror)
    await marks.put(_mark(name), msgspec.json.encode(facts).decode())
    return facts


def require_same(
    name: str,
    base_url: str,
    known: StoreFacts | None,
    told: StoreFacts,
    mirror: Path,
) -> None:
    """Raise OtherStore where the platform tells another store's id than is known.

    Every row of the mirror would be gone from there, and be removed one by one.
    """
    if known is None or not (known.store_id and told.store_id):
        return
    if known.store_id != told.store_id:
        raise OtherStore(
            f"stores.{name}: base_url {base_url} and its api_key lead to store"
            f" {told.store_id}, but {mirror} mirrors store {known.store_id}; nothing is"
            " read, sent or removed until they lead there again. To work for the other"
            " store, give it a configuration of its own (--config) with another"
            f" state_dir, or another name than {name}"
        )


class StoreIdentity:
    """Requires of a transport that it leads to the store which the mirror is of.

    Asked for once, before anything else leaves, and again with each other API key.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        client: ShopClient,
        marks: Marks,
        mirror: Path,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._base_url = base_url
        self._client = client
        self._marks = marks
        self._mirror = mirror
        self._refused = refused
        self._asking = asyncio.Lock()
        self._is_same = False
        self._refusal = ""
        self._asked_with = ""

    async def require(self) -> None:
        """Raise NotSent unless this is the store; each call asks until one is told."""
        async with self._asking:
            if self._asked_with != self._client.key_fingerprint:
                self._is_same, self._refusal = False, ""
            if not (self._is_same or self._refusal):
                await self._ask()
        if self._refusal:
            raise NotSent(self._refusal)

    async def _ask(self) -> None:
        try:
            known = await known_facts(self._name, self._marks)
            self._asked_with = self._client.key_fingerprint
            told = StoreFacts()
            if known is not None and known.store_id:
                told = await self._client.facts()
            require_same(self._name, self._base_url, known, told, self._mirror)
            self._is_same = True
        except OtherStore as error:
            self._refusal = str(error)
            self._refused(self._refusal)
            logger.bind(action="store.other", store=self._name).error("{}", error)
        except (InDoubt, Unusable, Busy) as error:
            raise NotSent(f"which store answers is not known: {error}") from None


async def _require_platform(name: str, base_url: str, client: ShopClient) -> None:
    answers = [await client.answer_of(path) for path in LISTS]
    refused = [answer for answer in answers if answer.status == 401]
    if refused:
        problem = f"the platform refuses the key ({refused[0].said()})"
        hint = "create a key under Settings > API & Webhooks"
        finding = Finding("settings", f"stores.{name}.api_key", problem, hint)
        raise ConfigurationError([finding])
    # Lists that are all missing, even in the platform's words: the path is wrong.
    if not any(a.ok or (a.problem() and a.status != 404) for a in answers):
        problem = f"{base_url}/api/v1 does not answer like the platform"
        said = f"GET /orders: {answers[0].status}"
        raise PlatformUnavailable(f"stores.{name}.base_url: {problem} ({said})")
    for path, answer in zip(LISTS, answers, strict=True):
        if answer.status == 403:
            logger.bind(action="store.scope_missing", store=name).warning(
                "store {}: {} cannot be read: {}", name, path[1:], answer.said()
            )


def _fatal(
    name: str, base_url: str, error: Exception
) -> PlatformUnavailable | ConfigurationError:
    if isinstance(error, PlatformUnavailable | ConfigurationError):
        return error
    return PlatformUnavailable(
        f"stores.{name}.base_url: {base_url}: {error}; where the way to it ends is told"
        " by: backhaul doctor"
    )
