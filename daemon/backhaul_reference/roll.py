"""The roll: each store with a key that may do everything, as access.json lists it."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from aiohttp import web

from backhaul_reference.access import Access, Folder, StoreKey
from backhaul_reference.arguments import Options
from backhaul_reference.context import Platform
from backhaul_reference.fixtures import loading
from backhaul_reference.fixtures.loading import Identity
from backhaul_reference.identifiers import IdSource
from backhaul_reference.state import keys, stores
from backhaul_reference.state.stores import Store
from backhaul_reference.state.writer import Tx

Stores = tuple[StoreKey, ...]


@dataclass(slots=True)
class Roll:
    """Keeps access.json as the stores come and go."""

    folder: Folder
    access: Access
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def add(self, store: StoreKey) -> None:
        await self._write(lambda stores: (*stores, store))

    async def keep_first(self) -> None:
        await self._write(lambda stores: stores[:1])

    async def _write(self, change: Callable[[Stores], Stores]) -> None:
        async with self._turn:
            changed = replace(self.access, stores=change(self.access.stores))
            await asyncio.to_thread(self.folder.write_access, changed)
            self.access = changed


ROLL: web.AppKey[Roll] = web.AppKey("roll", Roll)


def take_roll(tx: Tx, options: Options, platform: Platform, folder: Folder) -> Stores:
    """Every store with a key that works, the fixture's first; it is loaded if new."""
    words, ids = platform.quirks, platform.ids
    listed: list[dict[str, str]] = folder.read_access().get("stores") or [{}]
    if stores.by_subdomain(tx, loading.SUBDOMAIN) is None:
        identity = Identity(ids.new("sto"), listed[0].get("api_key") or ids.api_key())
        loading.load(tx, options.fixture, identity, words, platform.tokens)
        listed = [{"id": identity.store_id, "api_key": identity.api_key}]
    if words:
        stores.change_all(tx, {"quirks": list(words.texts)})
    known = {one.get("id"): one["api_key"] for one in listed if "api_key" in one}
    found = [_keyed(tx, one, known.get(one.id), ids) for one in stores.every(tx)]
    return tuple(sorted(found, key=lambda one: one.subdomain != loading.SUBDOMAIN))


def _keyed(tx: Tx, store: Store, known: str | None, ids: IdSource) -> StoreKey:
    """The key that access.json names, or a new one where it works no more."""
    if known is None or keys.find(tx, known) is None:
        known = ids.api_key()
        keys.add(tx, store.id, known, name="fixture")
    return StoreKey(store.subdomain, store.id, known)
