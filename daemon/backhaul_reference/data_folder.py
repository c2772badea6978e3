"""The data folder: lock, secrets, and access.json with each store's key."""

import asyncio
import fcntl
import json
import os
import secrets
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from aiohttp import web

from backhaul_reference.arguments import Options
from backhaul_reference.fixtures import loader
from backhaul_reference.fixtures.loader import Identity
from backhaul_reference.platform.context import Platform
from backhaul_reference.platform.formats import IdSource
from backhaul_reference.platform.state import api_keys, stores
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

SECRET_MODE = 0o600
ACCESS_FILE = "access.json"


class FolderInUseError(Exception):
    """Another server works in the folder."""


@dataclass(frozen=True, slots=True)
class StoreKey:
    """A store and an API key with every scope."""

    subdomain: str
    id: str
    api_key: str


@dataclass(frozen=True, slots=True)
class Access:
    """The contents of access.json: URLs, tokens and stores, the fixture's first."""

    public_url: str
    control_url: str
    control_token: str
    stores: tuple[StoreKey, ...]

    @property
    def store_id(self) -> str:
        return self.stores[0].id

    @property
    def api_key(self) -> str:
        return self.stores[0].api_key


@dataclass(frozen=True, slots=True)
class Folder:
    """One data folder, held by one server at a time."""

    path: Path

    @property
    def database(self) -> Path:
        return self.path / "reference.db"

    def lock(self) -> int:
        """Lock the folder; closing the descriptor releases it."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, SECRET_MODE)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(descriptor)
            raise FolderInUseError(str(self.path)) from error
        return descriptor

    def token_key(self) -> bytes:
        """Return the key of all tracking tokens; it is created at the first start."""
        path = self.path / "token.key"
        if not path.exists():
            write_private(path, secrets.token_bytes(32))
        return path.read_bytes()

    def read_access(self) -> dict[str, Any]:
        try:
            found = json.loads((self.path / ACCESS_FILE).read_text())
        except (FileNotFoundError, ValueError):
            return {}
        return found if isinstance(found, dict) else {}

    def write_access(self, access: Access) -> None:
        text = json.dumps(asdict(access), indent=1) + "\n"
        write_private(self.path / ACCESS_FILE, text.encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a file atomically with mode 0600."""
    scratch = path.with_name(path.name + ".new")
    scratch.unlink(missing_ok=True)
    descriptor = os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, SECRET_MODE)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    scratch.replace(path)


Stores = tuple[StoreKey, ...]


@dataclass(slots=True)
class StoreRegistry:
    """Updates access.json when stores are added."""

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


STORE_REGISTRY: web.AppKey[StoreRegistry] = web.AppKey("roll", StoreRegistry)


def load_registry(
    tx: Tx, options: Options, platform: Platform, folder: Folder
) -> Stores:
    """Return the stores, each with a valid key; loads the fixture if new."""
    words, ids = platform.quirks, platform.ids
    listed: list[dict[str, str]] = folder.read_access().get("stores") or [{}]
    if stores.by_subdomain(tx, loader.SUBDOMAIN) is None:
        identity = Identity(ids.new("sto"), listed[0].get("api_key") or ids.api_key())
        loader.load(tx, options.fixture, identity, words, platform.tokens)
        listed = [{"id": identity.store_id, "api_key": identity.api_key}]
    if words:
        stores.change_all(tx, {"quirks": list(words.texts)})
    known = {one.get("id"): one["api_key"] for one in listed if "api_key" in one}
    found = [_keyed(tx, one, known.get(one.id), ids) for one in stores.every(tx)]
    return tuple(sorted(found, key=lambda one: one.subdomain != loader.SUBDOMAIN))


def _keyed(tx: Tx, store: Store, known: str | None, ids: IdSource) -> StoreKey:
    """Return the store with its key in access.json, or a new key if that is invalid."""
    if known is None or api_keys.find(tx, known) is None:
        known = ids.api_key()
        api_keys.add(tx, store.id, known, name="fixture")
    return StoreKey(store.subdomain, store.id, known)
