"""Tests of the dashboard's users, and of the fingerprints of webhook secrets."""

# ruff: noqa: S101 - these are tests, which assert

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from backhaul.errors import BackhaulError
from backhaul.store.operations import AuditEntry
from backhaul.store.operators import MAX_BEGUN_OF_CLIENT, Role
from backhaul.store.testing.command_scenes import at, audit_entries, in_brief
from backhaul.store.testing.scenes import StoreConformance

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from backhaul.store import Store
    from backhaul.store.operators import User
    from backhaul.store.testing.scenes import TestClock

ENTRY = AuditEntry("ann", "secrets revoke", "f1")


async def user(store: Store, name: str) -> User:
    """Return a user that exists."""
    found = await store.users.find(name)
    assert found is not None
    return found


async def refused(work: Awaitable[None], reason: str) -> None:
    """Check that a change is refused."""
    with pytest.raises(BackhaulError, match=reason):
        await work


class UsersConformance(StoreConformance):
    """Tests of `Store.users`."""

    async def test_a_user_is_added_with_an_audit_entry(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.users.add("bob", Role.VIEWER, "hash", "ann")
        found = await user(store, "bob")
        assert (found.role, found.secret, found.epoch) == (Role.VIEWER, "hash", 1)
        assert (found.created_at, found.last_login_at) == (at(clock), None)
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == ("ann", "users add", "bob as viewer")
        assert await store.users.find("ann") is None

    async def test_users_are_listed_by_name(
        self, store: Store, clock: TestClock
    ) -> None:
        for name in ("cy", "ann", "bob"):
            await store.users.add(name, Role.OPERATOR, "hash", "cli")
            clock.advance(1)
        names = [found.name for found in await store.users.list()]
        assert names == ["ann", "bob", "cy"]
        listed = await store.read(lambda reader: reader.users())
        assert [found.name for found in listed] == names
        assert listed[0].role == "operator"

    async def test_a_name_is_added_once(self, store: Store) -> None:
        await store.users.add("bob", Role.VIEWER, "hash", "ann")
        again = store.users.add("bob", Role.ADMIN, "other", "ann")
        await refused(again, "exists already")
        assert (await user(store, "bob")).role is Role.VIEWER
        assert len(await audit_entries(store)) == 1

    async def test_there_is_one_first_user(self, store: Store) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "web", first=True)
        again = store.users.add("bob", Role.ADMIN, "hash", "web", first=True)
        await refused(again, "already added")
        assert await store.users.find("bob") is None

    async def test_a_changed_role_has_an_audit_entry(self, store: Store) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "cli")
        await store.users.add("bob", Role.VIEWER, "hash", "cli")
        await store.users.set_role("bob", Role.OPERATOR, "ann")
        assert (await user(store, "bob")).role is Role.OPERATOR
        assert (await user(store, "ann")).role is Role.ADMIN
        newest = (await audit_entries(store))[0]
        assert in_brief(newest) == ("ann", "users role", "bob is operator now")

    async def test_a_new_password_gets_a_new_epoch(self, store: Store) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "cli")
        await store.users.add("bob", Role.VIEWER, "hash", "cli")
        await store.users.set_secret("bob", "new", "ann")
        found, other = await user(store, "bob"), await user(store, "ann")
        assert (found.secret, found.epoch) == ("new", 2)
        assert (other.secret, other.epoch) == ("hash", 1)
        newest = (await audit_entries(store))[0]
        assert in_brief(newest) == ("ann", "users password", "bob")

    async def test_a_removed_user_is_gone(self, store: Store) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "cli")
        await store.users.add("bob", Role.VIEWER, "hash", "cli")
        await store.users.remove("bob", "ann")
        assert [found.name for found in await store.users.list()] == ["ann"]
        newest = (await audit_entries(store))[0]
        assert in_brief(newest) == ("ann", "users remove", "bob")

    async def test_the_last_administrator_stays(self, store: Store) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "cli")
        await store.users.add("bob", Role.OPERATOR, "hash", "cli")
        await refused(store.users.remove("ann", "ann"), "last administrator")
        demoted = store.users.set_role("ann", Role.OPERATOR, "ann")
        await refused(demoted, "last administrator")
        assert (await user(store, "ann")).role is Role.ADMIN
        await store.users.set_role("bob", Role.ADMIN, "ann")
        await store.users.remove("ann", "bob")

    async def test_an_unknown_user_cannot_be_changed(self, store: Store) -> None:
        for change in (
            store.users.remove("bob", "ann"),
            store.users.set_role("bob", Role.ADMIN, "ann"),
            store.users.set_secret("bob", "hash", "ann"),
        ):
            await refused(change, "does not exist")
        assert await audit_entries(store) == []

    async def test_a_disabled_user_keeps_its_place(
        self, store: Store, clock: TestClock
    ) -> None:
        users = store.users
        await users.add("ann", Role.ADMIN, "hash", "cli")
        await refused(users.set_disabled("ann", True, "ann"), "last administrator")
        await users.add("bob", Role.ADMIN, "hash", "cli")
        await users.set_disabled("bob", True, "ann")
        found = await user(store, "bob")
        assert (found.disabled_at, found.epoch) == (at(clock), 2)
        await refused(users.remove("ann", "bob"), "last administrator")
        await users.set_disabled("bob", False, "ann")
        assert (await user(store, "bob")).disabled_at is None
        await users.remove("ann", "bob")
        shown = [each.action for each in await audit_entries(store)]
        assert {"users disable", "users enable"} <= set(shown)

    async def test_an_identity_is_one_user_with_the_role_of_the_last_login(
        self, store: Store
    ) -> None:
        users = store.users
        await users.add("ann", Role.ADMIN, "hash", "cli")
        first = await users.sign_on("https://a 1", "ann", Role.VIEWER, "sso")
        again = await users.sign_on("https://a 1", "bob", Role.ADMIN, "sso")
        other = await users.sign_on("https://b 1", "ann", Role.VIEWER, "sso")
        long = [
            await users.sign_on(f"https://a {n}", "n" * 64, Role.VIEWER, "sso")
            for n in range(2, 4)
        ]
        assert [first.name, again.name, other.name] == ["ann-2", "ann-2", "ann-3"]
        assert [each.name for each in long] == ["n" * 64, f"{'n' * 62}-2"]
        assert again == await user(store, "ann-2")
        assert (again.role, again.identity) == (Role.ADMIN, "https://a 1")
        assert (await user(store, "ann")).role is Role.ADMIN
        await refused(users.set_secret("ann-2", "hash", "ann"), "no password here")

    async def test_an_identity_without_a_role_loses_its_sessions(
        self, store: Store
    ) -> None:
        users = store.users
        found = await users.sign_on("https://a 1", "ann", Role.ADMIN, "sso")
        await users.end_access("https://a 2", "sso", "no role")
        assert (await user(store, "ann")).epoch == found.epoch
        await users.end_access("https://a 1", "sso", "no role")
        assert (await user(store, "ann")).epoch == found.epoch + 1
        details = [each.detail for each in await audit_entries(store)]
        assert "ann: no role" in details

    async def test_a_step_and_a_recovery_code_count_once(self, store: Store) -> None:
        users, entry = store.users, AuditEntry("ann", "users totp", "ann: on")
        await users.add("ann", Role.ADMIN, "hash", "cli")
        await users.set_totp("ann", "sealed", ["d1", "d2"], entry)
        steps = [await users.use_totp_step("ann", step) for step in (7, 7, 6, 8)]
        assert steps == [True, False, False, True]
        codes = [await users.use_recovery_code("ann", d) for d in ("d2", "d2", "d3")]
        assert codes == [True, False, False]
        found = await user(store, "ann")
        assert (found.totp, found.recovery_codes) == ("sealed", ("d1",))
        await users.set_recovery_codes("ann", ["d4"], entry)
        await users.reseal_totp("ann", "other", "again")
        assert (await user(store, "ann")).totp == "sealed"
        await users.reseal_totp("ann", "sealed", "again")
        found = await user(store, "ann")
        assert (found.totp, found.recovery_codes) == ("again", ("d4",))
        await users.set_totp("ann", None, (), entry)
        assert (await user(store, "ann")).totp is None
        assert not await users.use_recovery_code("nobody", "d4")

    async def test_a_begun_login_is_taken_once(self, store: Store) -> None:
        logins = store.logins
        await logins.keep_begun("k1", "here", "one")
        await logins.keep_begun("k2", "there", "two")
        assert await logins.find_begun("k1") == "one"
        assert await logins.take_begun("k1") == "one"
        assert await logins.take_begun("k1") is None
        assert await logins.find_begun("k1") is None
        assert await logins.find_begun("k2") == "two"
        for number in range(MAX_BEGUN_OF_CLIENT + 1):
            await logins.keep_begun(f"n{number}", "here", "x")
        assert await logins.find_begun("n0") is None
        assert await logins.find_begun("n1") == "x"
        assert await logins.find_begun("k2") == "two"

    async def test_logins_are_the_different_ones_since_a_time_newest_first(
        self, store: Store, clock: TestClock
    ) -> None:
        await store.users.add("ann", Role.ADMIN, "hash", "cli")
        await store.users.record_login("ann", "from 10.0.0.9")
        clock.advance(60)
        since = at(clock)
        for address in ("1", "2", "1"):
            await store.users.record_login("ann", f"from 10.0.0.{address}")
        await store.users.record_login("bob", "from 10.0.0.7")
        await store.users.record_action(AuditEntry("ann", "jobs run", "poll"))
        found = list(await store.users.logins("ann", since))
        assert found == ["from 10.0.0.1", "from 10.0.0.2"]
        assert (await user(store, "ann")).last_login_at == at(clock)

    async def test_an_action_is_recorded(self, store: Store, clock: TestClock) -> None:
        entry = AuditEntry("ann", "jobs run", "poll of main")
        await store.users.record_action(entry)
        (found,) = await audit_entries(store)
        assert (in_brief(found), found.at) == (in_brief(entry), at(clock))
        assert found.command_id is None


class WebhookSecretsConformance(StoreConformance):
    """Tests of `Store.webhook_secrets`."""

    async def test_known_secrets_are_replaced_by_source(self, store: Store) -> None:
        secrets = store.webhook_secrets
        await secrets.set_known("main", ["f1", "f2"], "settings")
        await secrets.set_known("main", ["f3"], "platform")
        await secrets.set_known("other", ["f1"], "settings")
        await secrets.set_known("main", ["f2", "f4"], "settings")
        assert await known(store) == {
            ("main", "f2"),
            ("main", "f3"),
            ("main", "f4"),
            ("other", "f1"),
        }

    async def test_a_secret_that_stays_known_keeps_its_time(
        self, store: Store, clock: TestClock
    ) -> None:
        since = at(clock)
        await store.webhook_secrets.set_known("main", ["f1"], "settings")
        clock.advance(60)
        await store.webhook_secrets.set_known("main", ["f1"], "settings")
        (found,) = await store.read(lambda reader: reader.webhook_secrets())
        assert (found.known_since, found.source) == (since, "settings")

    async def test_a_revoked_secret_stays_known_and_revoked(
        self, store: Store, clock: TestClock
    ) -> None:
        secrets = store.webhook_secrets
        await secrets.set_known("main", ["f1", "f2"], "settings")
        await secrets.set_known("other", ["f1"], "settings")
        assert await secrets.set_revoked("main", "f1", True, ENTRY) == {"f1"}
        assert await secrets.set_known("main", ["f2"], "settings") == {"f1"}
        assert await secrets.set_known("main", ["f1", "f2"], "settings") == {"f1"}
        assert await secrets.set_known("other", ["f1"], "settings") == set()
        (entry,) = await audit_entries(store)
        assert in_brief(entry) == in_brief(ENTRY)
        assert await secrets.set_revoked("main", "f1", False, ENTRY) == set()

    async def test_the_last_use_of_each_secret_is_recorded(self, store: Store) -> None:
        secrets = store.webhook_secrets
        await secrets.set_known("main", ["f1", "f2"], "settings")
        await secrets.set_known("other", ["f1"], "settings")
        assert await secrets.last_used("main", "f1") is None
        await secrets.record_uses({("main", "f1"): "2026-03-01T12:00:00.000Z"})
        await secrets.record_uses({("main", "f1"): "2026-03-01T12:00:09.000Z"})
        assert await secrets.last_used("main", "f1") == "2026-03-01T12:00:09.000Z"
        assert await secrets.last_used("main", "f2") is None
        assert await secrets.last_used("other", "f1") is None
        assert await secrets.last_used("main", "f9") is None


async def known(store: Store) -> set[tuple[str, str]]:
    """Return the store and fingerprint of each known secret."""
    found = await store.read(lambda reader: reader.webhook_secrets())
    return {(each.store, each.fingerprint) for each in found}
