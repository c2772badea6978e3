"""How the members of one database share its stores, and take what others give up."""

from __future__ import annotations

from contextlib import closing
from typing import Any, cast

import psycopg
import pytest

from backhaul.store.postgres.ownership import PostgresOwnership
from scenes.cluster_members import LONG_AGO, in_contact, joined, owning, run

pytestmark = pytest.mark.programs
BOTH = ("one", "two")


THREE = ("one", "two", "three")
OTHERS_OWN = """
    UPDATE owners SET member = CASE store WHEN 'three' THEN 'c' ELSE 'b' END
    WHERE store != 'one'
"""
FENCE_C = (
    "UPDATE owners SET member = NULL WHERE member = 'c'",
    "UPDATE members SET fenced_at = clock_timestamp(), stores = 0 WHERE id = 'c'",
)


async def test_a_store_that_another_member_frees_during_a_take_is_taken_next(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two members find a third one silent at once, and the first leaves a store."""
    async with (
        joined(url, "a", THREE) as store,
        joined(url, "b", THREE),
        joined(url, "c", THREE),
    ):
        run(url, OTHERS_OWN)
        run(url, "UPDATE members SET stores = 1 WHERE id != 'a'")
        assert (await store.ownership.balance()).taken == ("one",)
        await in_contact(store)
        run(url, LONG_AGO.replace("'a'", "'c'"))
        take_others = PostgresOwnership._take_others
        with closing(psycopg.connect(url)) as first:
            for statement in FENCE_C:
                first.execute(statement)

            def slowly(*values: Any) -> bool:
                first.commit()
                return take_others(*values)

            with monkeypatch.context() as patched:
                patched.setattr(PostgresOwnership, "_take_others", slowly)
                assert (await store.ownership.balance()).taken == ()
        assert (await store.ownership.balance()).taken == ("three",)


async def test_the_last_store_of_a_silent_member_is_not_left_to_nobody(
    url: str,
) -> None:
    """Before the take it is in the share of `b`, and afterwards in that of `a`."""
    async with (
        joined(url, "a", THREE) as store,
        joined(url, "b", THREE),
        joined(url, "c", THREE),
    ):
        run(url, "UPDATE owners SET member = 'b'")
        run(url, "UPDATE owners SET member = 'c' WHERE store IN ('one', 'three')")
        run(url, "UPDATE members SET stores = 1 WHERE id = 'b'")
        run(url, "UPDATE members SET stores = 2 WHERE id = 'c'")
        await in_contact(store)
        run(url, LONG_AGO.replace("'a'", "'c'"))
        assert (await store.ownership.balance()).taken == ("one", "three")


async def test_stores_that_are_given_up_in_one_transaction_are_owned_no_longer(
    url: str,
) -> None:
    async with joined(url, "a", THREE) as store:
        await owning(store)
        ownership = cast("PostgresOwnership", store.ownership)

        def unit(connection: Any) -> None:
            for name in BOTH:
                ownership._give_up(connection, name)

        await store.engine.writer.urgent(unit)
        assert ownership.owned() == frozenset({"*", "three"})


async def test_stores_that_the_settings_have_no_longer_count_for_nobody(
    url: str,
) -> None:
    async with joined(url, "a", BOTH) as first:
        await owning(first)
        run(url, "INSERT INTO owners (store) VALUES ('three'), ('four')")
        async with joined(url, "b", BOTH):
            assert len((await first.ownership.balance()).surplus) == 1
