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
from backhaul.platform.transport import NotSent, OutcomeUnknown

if TYPE_CHECKING:
    from collections.abc import Callable

    from backhaul.platform.client import PlatformClient
    from backhaul.store.operations import KeyValues


class FactsSource(Protocol):
    """Reads the key-value state."""

    async def get(self, name: str) -> str | None:
        """Return the value of this name, or None."""
        ...


async def known_facts(name: str, marks: FactsSource) -> StoreFacts | None:
    """Return the store's facts from an earlier start; None before the first contact.

    Raises CorruptData if they cannot be read. Asking the platform again is unsafe:
    another store could answer, and the mirror would become a mirror of that store.
    """
    known = await marks.get(_mark(name))
    try:
        return None if known is None else msgspec.json.decode(known, type=StoreFacts)
    except msgspec.MsgspecError as error:
        raise CorruptData(
            f"the database is damaged: the identity of store {name} cannot be read"
            f" ({error}). Stop the daemon and restore a backup: backhaul restore FILE"
        ) from None


def _mark(name: str) -> str:
    return f"facts:{name}"


async def learn_facts(
    name: str, base_url: str, client: PlatformClient, marks: KeyValues, mirror: str
) -> StoreFacts:
    """Fetch the store's facts from the platform, save and return them.

    Raises PlatformUnavailable or ConfigurationError at the first contact only. Raises
    OtherStore if the platform's store is not the one that the database `mirror` has.
    """
    known = await known_facts(name, marks)
    if known is not None:
        known = replace(known, tracking=client.tracking)
    try:
        await _require_platform(name, base_url, client)
        facts = await client.facts()
    except (
        PlatformUnavailable,
        ConfigurationError,
        NotSent,
        OutcomeUnknown,
        Unusable,
    ) as e:
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
    reported: StoreFacts,
    mirror: str,
) -> None:
    """Raise OtherStore if the platform reports another store's id than the known one.

    The other store lacks every object of the mirror, so a full sync would delete all.
    """
    if known is None or not (known.store_id and reported.store_id):
        return
    if known.store_id != reported.store_id:
        raise OtherStore(
            f"stores.{name}: base_url {base_url} and its api_key belong to store"
            f" {reported.store_id}, but {mirror} mirrors store {known.store_id}."
            f" Backhaul reads, sends and removes nothing for {name} until base_url"
            f" and api_key belong to store {known.store_id} again. To serve the"
            f" other store, add it under another name than {name}, or give it its"
            " own configuration (--config) with another state_dir"
        )


class StoreIdentity:
    """Checks that a transport reaches the store that the database mirrors.

    It checks once, before any other request, and again after every change of the API
    key.
    """

    def __init__(
        self,
        name: str,
        base_url: str,
        client: PlatformClient,
        marks: KeyValues,
        mirror: str,
        refused: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._name = name
        self._base_url = base_url
        self._client = client
        self._marks = marks
        self._mirror = mirror
        self._refused = refused
        self._lock = asyncio.Lock()
        self._is_same = False
        self._refusal = ""
        self._checked_key = ""

    async def require(self) -> None:
        """Raise NotSent unless this is the store; ask until the platform answers."""
        async with self._lock:
            if self._checked_key != self._client.key_fingerprint:
                self._is_same, self._refusal = False, ""
            if not (self._is_same or self._refusal):
                await self._check()
        if self._refusal:
            raise NotSent(self._refusal)

    async def _check(self) -> None:
        try:
            known = await known_facts(self._name, self._marks)
            self._checked_key = self._client.key_fingerprint
            reported = StoreFacts()
            if known is not None and known.store_id:
                reported = await self._client.facts()
            require_same(self._name, self._base_url, known, reported, self._mirror)
            self._is_same = True
        except OtherStore as error:
            self._refusal = str(error)
            self._refused(self._refusal)
            logger.bind(action="store.other", store=self._name).error("{}", error)
        except (OutcomeUnknown, Unusable, Busy) as error:
            raise NotSent(
                "Backhaul could not check to which store base_url and api_key"
                f" belong: {error}"
            ) from None


async def _require_platform(name: str, base_url: str, client: PlatformClient) -> None:
    answers = [await client.answer_of(path) for path in LISTS]
    refused = [answer for answer in answers if answer.status == 401]
    if refused:
        problem = f"the platform refuses the API key ({refused[0].said()})"
        hint = "create a key in the platform's dashboard, Settings > API & Webhooks"
        finding = Finding("configuration", f"stores.{name}.api_key", problem, hint)
        raise ConfigurationError([finding])
    # All lists are missing, even if the platform says so itself: the path is wrong.
    if not any(a.ok or (a.problem() and a.status != 404) for a in answers):
        problem = f"{base_url}/api/v1 is not the platform's API"
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
        f"stores.{name}.base_url: {base_url} cannot be reached: {error}. To find"
        " where the connection fails, run: backhaul doctor"
    )
