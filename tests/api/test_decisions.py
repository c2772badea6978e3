"""Decisions through the API use the same actions as the dashboard and the CLI."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from backhaul.store.records import NewRecord
from backhaul.store.testing.event_scenes import arrive
from backhaul.store.testing.mirror_scenes import show_order, show_product

if TYPE_CHECKING:
    from scenes.api import Program
    from scenes.dashboard import Office


async def quarantined(office: Office, *keys: str) -> None:
    """Put rows into quarantine that no connector could read."""
    bad = [NewRecord(key, None, "a;b", "no order", f"file:{key}") for key in keys]
    await office.store.records.accept("courier", "main", bad, None, _unmatched)


def _unmatched(*_: object) -> Any:
    raise AssertionError("a bad row is not matched")


async def test_a_command_is_parked_and_discarded(
    office: Office, program: Program
) -> None:
    command = await office.plan()
    path = f"/commands/{command}/decision"
    parked = await program.post(path, {"verb": "park", "reason": "wait"})
    assert parked == {"command": command, "state": "parked"}
    dropped = await program.post(path, {"verb": "discard", "reason": "by mail"})
    assert dropped["state"] == "rejected"
    assert office.audit()[1:] == [
        ("token program", "commands park", "wait"),
        ("token program", "commands discard", "by mail"),
    ]


async def test_a_resend_needs_the_request_that_was_read(
    office: Office, program: Program
) -> None:
    command = await office.plan(state="parked")
    path = f"/commands/{command}"
    asked: dict[str, Any] = {"verb": "resend", "reason": "not at the courier"}
    refused = await program.post(f"{path}/decision", asked, 422)
    assert f"{path}/request" in refused["detail"]
    shown = await program.get(f"{path}/request")
    asked |= {"state": shown["state"], "body": "{}"}
    refused = await program.post(f"{path}/decision", asked, 422)
    assert "has changed since it was shown" in refused["detail"]
    asked |= {"body": shown["body"]}
    assert (await program.post(f"{path}/decision", asked))["state"] == "planned"


async def test_a_decision_needs_a_reason(office: Office, program: Program) -> None:
    command = await office.plan()
    refused = await program.post(f"/commands/{command}/decision", {"verb": "park"}, 422)
    assert "needs a reason" in refused["detail"]


async def test_a_row_is_edited_and_retried(office: Office, program: Program) -> None:
    await show_product(office.store, "prod_1")
    wrong = {"sku": "NO", "delta": 1}
    held = await program.submit("adjustments", "key-0001", wrong, 202)
    with_row = await office.store.records.match(_refuse, 9)
    assert [each.state for each in with_row] == ["quarantined"]
    row = (await program.get(f"/records/{held['id']}"))["quarantine_id"]
    done = await program.post(f"/quarantine/{row}/edit", {"fields": {"sku": "SKU-1"}})
    assert done == {"row": row, "state": "waits to be matched"}
    again = await program.post(f"/quarantine/{row}/retry", {}, 422)
    assert str(row) in again["detail"]


def _refuse(*_: object) -> Any:
    from backhaul.store.records import Unmatched

    return Unmatched("no such SKU", final=True)


async def test_rows_are_discarded_as_their_preview_shows(
    office: Office, program: Program
) -> None:
    await quarantined(office, "k1", "k2", "k3")
    asked = {"where": "connector=courier", "verb": "discard"}
    shown = await program.post("/quarantine/preview", asked)
    assert (shown["stores"], shown["changed"]) == ({"main": 3}, 3)
    await quarantined(office, "k4")
    change = asked | {"expected": shown["stores"], "reason": "a test file"}
    refused = await program.post("/quarantine/change", change, 422)
    assert "4 rows of store main match now, but 3 were shown" in refused["detail"]
    done = await program.post("/quarantine/change", change | {"expected": {"main": 4}})
    assert (done["dropped"], done["unchanged"]) == (4, 0)
    assert {who for who, _, _ in office.audit()[1:]} == {"token program"}


async def test_a_discard_needs_a_reason(office: Office, program: Program) -> None:
    await quarantined(office, "k1")
    await program.post("/quarantine/1/discard", {}, 422)
    asked = {"where": "id=1", "verb": "discard", "expected": {"main": 1}}
    refused = await program.post("/quarantine/change", asked, 422)
    assert "give a reason" in refused["detail"]
    assert (await program.get("/quarantine/counts"))["states"] == {"open": 1}


async def test_a_job_is_paused_and_resumed(office: Office, program: Program) -> None:
    done = await program.post("/jobs/reconcile_full/pause", {"store": "main"})
    assert [each["job"] for each in done["jobs"]] == ["reconcile_full"]
    jobs = (await program.get("/jobs"))["items"]
    (job,) = [each for each in jobs if each["job"] == "reconcile_full"]
    assert job["paused_at"] is not None
    await program.post("/jobs/reconcile_full/resume")
    refused = await program.post("/jobs/none/run", {}, 422)
    assert "none" in refused["detail"]


async def test_a_connection_is_triggered_now(office: Office, program: Program) -> None:
    done = await program.post("/connectors/courier/run")
    assert (done, office.requests) == ({"records": {"accepted": 2}}, ["courier"])
    refused = await program.post("/connectors/none/run", {}, 422)
    assert "the connections are: courier" in refused["detail"]


async def test_events_are_processed_again(office: Office, program: Program) -> None:
    await show_order(office.store, "ord_1", number=1001)
    number = await arrive(office.store, b"{}", "main")
    assert await program.post("/events/reprocess", {"ids": [number]}) is not None
    refused = await program.post("/events/reprocess", {}, 422)
    assert "choose events" in refused["detail"]
    assert ("token program", "events reprocess", str(number)) in office.audit()


@pytest.mark.parametrize("path", ["/deliveries/7/decision", "/commands/0000/decision"])
async def test_an_unknown_object_cannot_be_decided(program: Program, path: str) -> None:
    verb = {"verb": "park", "reason": "a test"}
    assert (await program.post(path, verb, 404))["title"] == "Not Found"
