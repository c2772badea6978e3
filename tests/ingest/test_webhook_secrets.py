"""Several webhook secrets at once: each has a time of last use, and can be revoked."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from backhaul.core import webhook
from backhaul.errors import Busy
from backhaul.ingest.secret_rings import secret_fingerprint
from backhaul.ingest.webhook_secrets import SAVE_SECONDS, SecretRegistry
from backhaul.store.operations import AuditEntry
from scenes.clock import VirtualClock
from scenes.databases import contents, locked
from scenes.stored import lists

if TYPE_CHECKING:
    from backhaul.store import Store

OLD, NEW, GIVEN = b"whsec_old", b"whsec_new", b"whsec_given"
BODY = b"{}"
DEED = AuditEntry("otto", "secrets revoke", "the old one of main")
EARLY, LATE = "2026-03-01T12:00:00.000Z", "2026-03-01T12:00:09.000Z"


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
async def signers(store: Store, clock: VirtualClock) -> SecretRegistry:
    found = SecretRegistry(store.webhook_secrets, clock)
    await found.load({"main": [OLD, NEW]})
    return found


def accepts(signers: SecretRegistry, secret: bytes, now: str = EARLY) -> bool:
    return signers.signed("main", BODY, webhook.sign(BODY, secret).decode(), now)


def uses(store: Store) -> dict[str, str | None]:
    with lists(store.place) as reader:
        return {one.fingerprint: one.last_used_at for one in reader.webhook_secrets()}


async def test_each_says_when_it_last_signed(
    signers: SecretRegistry, store: Store
) -> None:
    assert accepts(signers, OLD)
    await signers.save()
    assert uses(store)[secret_fingerprint(OLD)]
    assert uses(store)[secret_fingerprint(NEW)] is None


async def test_uses_are_saved_from_time_to_time(
    signers: SecretRegistry, store: Store, clock: VirtualClock
) -> None:
    async with asyncio.TaskGroup() as group:
        saving = group.create_task(signers.run())
        await clock.await_sleeper(SAVE_SECONDS)
        accepts(signers, NEW)
        await clock.advance(SAVE_SECONDS)
        await clock.await_sleeper(SAVE_SECONDS)
        assert uses(store)[secret_fingerprint(NEW)] == EARLY
        saving.cancel()


async def test_a_use_that_could_not_be_saved_is_saved_later(
    signers: SecretRegistry, store: Store
) -> None:
    assert accepts(signers, OLD)
    assert accepts(signers, NEW)
    with locked(store.place):
        saving = asyncio.create_task(signers.save())
        await asyncio.sleep(0)
        assert accepts(
            signers, NEW, LATE
        )  # another use, while the first one is being saved
        with pytest.raises(Busy):
            await saving
    await signers.save()
    assert uses(store) == {
        secret_fingerprint(OLD): EARLY,
        secret_fingerprint(NEW): LATE,
    }


async def test_a_wrong_signature_is_no_use(
    signers: SecretRegistry, store: Store
) -> None:
    assert not accepts(signers, b"another")
    await signers.save()
    assert set(uses(store).values()) == {None}


async def test_a_secret_from_elsewhere_is_accepted_at_once(
    signers: SecretRegistry,
) -> None:
    assert not accepts(signers, GIVEN)
    await signers.admit("main", [GIVEN], "guardian")
    assert all(accepts(signers, secret) for secret in (OLD, NEW, GIVEN))


async def test_a_revoked_secret_stays_revoked_after_a_restart(
    signers: SecretRegistry, store: Store, clock: VirtualClock
) -> None:
    await signers.drop("main", secret_fingerprint(OLD), DEED)
    assert not accepts(signers, OLD)
    again = SecretRegistry(store.webhook_secrets, clock)
    await again.load({"main": [OLD, NEW]})
    assert not accepts(again, OLD)
    assert accepts(again, NEW)
    await again.drop("main", secret_fingerprint(OLD), DEED, dropped=False)
    assert accepts(again, OLD)


async def test_a_secret_that_left_the_settings_is_removed(
    signers: SecretRegistry, store: Store, clock: VirtualClock
) -> None:
    again = SecretRegistry(store.webhook_secrets, clock)
    await again.load({"main": [NEW]})
    assert set(uses(store)) == {secret_fingerprint(NEW)}


async def test_no_secret_is_in_the_file(signers: SecretRegistry, store: Store) -> None:
    accepts(signers, OLD)
    await signers.save()
    kept = contents(store.place)
    assert secret_fingerprint(OLD).encode() in kept
    assert OLD not in kept


def test_a_fingerprint_is_how_the_sha256_begins() -> None:
    # printf %s whsec_old | sha256sum
    assert secret_fingerprint(OLD) == "3d269a69854f"


async def test_several_signatures_do_not_blame_the_secret(
    signers: SecretRegistry,
) -> None:
    assert not accepts(signers, b"whsec_other")
    assert signers.why_kept("main") == ""
    signers.doubled("main")
    signers.doubled("nobody")
    assert "came twice" in signers.why_kept("main")
    assert "since the start" in signers.why_kept("nobody")
    assert not accepts(signers, b"whsec_other")
    assert signers.why_kept("main") == ""
