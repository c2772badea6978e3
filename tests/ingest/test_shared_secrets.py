"""Webhook secrets of the platform that every daemon on a database accepts."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from backhaul.core.clock import SystemClock
from backhaul.core.webhook import sign
from backhaul.errors import Busy, ConfigurationError
from backhaul.ingest.secret_rings import secret_fingerprint
from backhaul.ingest.webhook_secrets import SecretRegistry, SecretWatch
from backhaul.platform.store_credentials import GIVEN, SecretCipher, SharedKeyring
from backhaul.store.operations import AuditEntry
from backhaul.store.ownership import Member
from backhaul.store.postgres.database import open_store as open_postgres
from scenes.cluster_members import became_owner
from scenes.databases import contents, started_store

if TYPE_CHECKING:
    from backhaul.store import Place, Store
    from scenes.postgres_databases import PostgresDatabases

KEY, OTHER_KEY = SecretStr("k" * 32), SecretStr("o" * 32)
FIRST, SECOND = b"whsec_first-of-the-platform", b"whsec_second-of-the-platform"
NOW = "2026-03-01T12:00:00.000Z"
ENTRY = AuditEntry("asha", "secrets revoke", "main")


class Machine:
    """The webhook secrets of store `main` in one daemon."""

    def __init__(self, store: Store, *keys: SecretStr, left: tuple[bytes, ...] = ()):
        self.store = store
        self.registry = SecretRegistry(store.webhook_secrets, SystemClock())
        self.keyring = SharedKeyring(
            "main",
            store.sealed_secrets,
            SecretCipher(keys or (KEY,)),
            lambda _: None,
            lambda: list(left),
        )
        self.watch = SecretWatch(
            store.sealed_secrets, self.registry, {"main": self.keyring}, SystemClock()
        )

    async def start(self) -> None:
        await self.watch.start()
        await self.registry.load({"main": []})
        await self.registry.admit("main", await self.keyring.load(), GIVEN)

    def accepts(self, secret: bytes) -> bool:
        signature = sign(b"body", secret).decode()
        return self.registry.signed("main", b"body", signature, NOW)


def test_sealed_secrets_open_with_their_key_and_for_their_store_only() -> None:
    cipher = SecretCipher([KEY])
    sealed = cipher.seal("main", [FIRST, SECOND])
    assert cipher.open("main", sealed) == [FIRST, SECOND]
    assert sealed != cipher.seal("main", [FIRST, SECOND])
    for key, store in ((OTHER_KEY, "main"), (KEY, "other")):
        with pytest.raises(ConfigurationError, match="sealed with another key"):
            SecretCipher([key]).open(store, sealed)
    assert SecretCipher([OTHER_KEY, KEY]).open("main", sealed) == [FIRST, SECOND]


async def test_a_new_secret_is_accepted_by_the_others(database: Place) -> None:
    async with started_store(database) as store:
        owner, other = Machine(store), Machine(store)
        await owner.start()
        await other.start()
        assert not other.accepts(FIRST)
        for secret in (FIRST, SECOND):
            await owner.keyring.keep(secret)
            await other.watch.check()
            assert other.accepts(secret)
        assert other.accepts(FIRST)
        later = Machine(store)
        await later.start()
        assert later.accepts(SECOND)
    assert FIRST not in contents(database)


async def test_a_secret_that_was_revoked_elsewhere_is_refused(database: Place) -> None:
    async with started_store(database) as store:
        owner, other = Machine(store), Machine(store)
        await owner.keyring.keep(FIRST)
        await owner.start()
        await other.start()
        assert other.accepts(FIRST)
        await owner.registry.drop("main", secret_fingerprint(FIRST), ENTRY)
        await other.watch.check()
        assert not other.accepts(FIRST)


async def test_an_earlier_secret_file_of_one_machine_is_used(
    database: Place,
) -> None:
    async with started_store(database) as store:
        moved, other = Machine(store, left=(FIRST,)), Machine(store, left=(SECOND,))
        await moved.start()
        await other.start()
        assert moved.accepts(FIRST)
        assert other.accepts(FIRST)
        assert not other.accepts(SECOND)


async def test_a_machine_with_another_key_keeps_its_secrets(
    database: Place, lines: list[str]
) -> None:
    async with started_store(database) as store:
        owner, other = Machine(store), Machine(store, OTHER_KEY)
        await other.start()
        await owner.keyring.keep(FIRST)
        await other.watch.check()
        assert not other.accepts(FIRST)
        assert any(line.startswith("secrets.unreadable") for line in lines)
        with pytest.raises(ConfigurationError):
            await Machine(store, OTHER_KEY).start()


@pytest.mark.programs
@pytest.mark.postgres
async def test_only_the_owner_replaces_secrets_and_all_read_them(
    postgres_server: PostgresDatabases,
) -> None:
    with postgres_server.lent() as url:
        stores = [
            open_postgres(url, SystemClock(), Member(name, name, "0.1.0"))
            for name in ("a", "b")
        ]
        for store in stores:
            store.start()
        await became_owner(stores[0])
        owner, other = map(Machine, stores)
        await other.start()
        await owner.keyring.keep(FIRST)
        await other.watch.check()
        assert other.accepts(FIRST)
        with pytest.raises(Busy):
            await other.keyring.keep(SECOND)
        for store in stores:
            await store.stop()
