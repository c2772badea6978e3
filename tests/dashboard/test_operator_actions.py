"""Actions of an operator other than decisions are carried out and audited."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import TYPE_CHECKING

import pytest

from backhaul.core.clock import to_text
from backhaul.errors import Unusable
from backhaul.platform import decoding
from backhaul.store.commands import Decision
from backhaul.store.operations import AuditEntry, JobRun, Trigger
from backhaul.store.records import NewRecord, Unmatched
from backhaul.store.sql.read_models.recent_changes import SCANNED
from backhaul.store.stock_targets import HeldFilter
from backhaul.store.testing.target_scenes import hold
from backhaul.sync.resource_types import KINDS
from scenes import payloads
from scenes.damaged_rows import delete_rows, insert_many, overwrite
from scenes.dashboard import Subscription
from scenes.databases import append_and_fold
from scenes.jobs import settings_of
from scenes.stored import value_of

if TYPE_CHECKING:
    from backhaul.platform import schemas
    from scenes.dashboard import Browser, Office

OLD, NEW = b"an old secret of the store", b"a new secret of the store"
ALL_HELD = HeldFilter()
WHY = "the step of target abcdef01 for variant var_1 moved var_2"


async def pages(browser: Browser, path: str, pattern: str) -> list[list[str]]:
    """Follow a list to its end; return what each page names, in its order."""
    found: list[list[str]] = []
    while path:
        page = await browser.read(path)
        found.append(re.findall(pattern, page))
        link = re.search(r'href="([^"]+)" rel="next"', page)
        path = unescape(link[1]) if link else ""
        assert len(found) < 20, "the list has no end"
    return found


async def secrets(office: Office, *, used: timedelta | None) -> tuple[str, str]:
    """Accept two secrets, the first used so long ago; return their fingerprints."""
    await office.webhook_secrets.load({"main": (OLD, NEW)})
    first, second = office.webhook_secrets.live()["main"]
    if used is not None:
        at = to_text(office.clock.now() - used)
        await office.store.webhook_secrets.record_uses({("main", first): at})
    return first, second


async def test_an_unused_secret_is_revoked_and_restored(office: Office) -> None:
    first, second = await secrets(office, used=timedelta(days=2))
    browser = await office.browser("otto")
    form = {"store": "main", "fingerprint": first}
    assert (await browser.post("/secrets/revoke", **form)).status == 303
    assert office.webhook_secrets.live()["main"] == (second,)
    assert f"Accept {first} again" in await browser.read("/stores")
    assert (await browser.post("/secrets/accept", **form)).status == 303
    assert sorted(office.webhook_secrets.live()["main"]) == sorted([first, second])
    assert office.audit() == [
        ("otto", "secrets revoke", f"{first} of main"),
        ("otto", "secrets accept", f"{first} of main"),
    ]


async def test_a_secret_in_use_is_revoked_by_force_only(office: Office) -> None:
    first, second = await secrets(office, used=timedelta(hours=23))
    browser = await office.browser("otto")
    form = {"store": "main", "fingerprint": first}
    answer = await browser.post("/secrets/revoke", **form)
    assert (answer.status, len(office.webhook_secrets.live()["main"])) == (422, 2)
    assert "less than a day ago" in await answer.text()
    assert office.audit() == []
    assert (await browser.post("/secrets/revoke", force="yes", **form)).status == 303
    assert office.webhook_secrets.live()["main"] == (second,)
    assert office.audit() == [("otto", "secrets revoke", f"{first} of main by force")]


async def test_the_only_secret_stays_even_by_force(office: Office) -> None:
    first, second = await secrets(office, used=None)
    browser = await office.browser("otto")
    form = {"store": "main", "force": "yes"}
    assert (
        await browser.post("/secrets/revoke", fingerprint=first, **form)
    ).status == 303
    answer = await browser.post("/secrets/revoke", fingerprint=second, **form)
    assert (answer.status, office.webhook_secrets.live()["main"]) == (422, (second,))


async def test_counts_that_were_stopped_go_on(office: Office) -> None:
    await office.store.targets.stop("main", WHY)
    browser = await office.browser("otto")
    assert WHY in await browser.read("/targets")
    assert (await browser.post("/stock/resume", store="main")).status == 303
    assert await office.store.targets.stopped("main") is None
    assert WHY not in (await browser.read("/targets")).split("<h1>")[1]
    said = f"main: they were stopped: {WHY}"
    assert office.audit() == [("otto", "stock resume", said)]


async def test_a_viewer_sees_the_stop_and_cannot_end_it(office: Office) -> None:
    await office.store.targets.stop("main", WHY)
    browser = await office.browser("vera")
    page = await browser.read("/targets")
    assert (WHY in page, "/stock/resume" in page) == (True, False)
    assert (await browser.post("/stock/resume", store="main")).status == 403
    assert await office.store.targets.stopped("main") == WHY


async def test_counts_on_hold_are_listed_and_released_together(office: Office) -> None:
    await hold(office.store, lambda seconds: office.clock.set_back(-seconds))
    browser = await office.browser("otto")
    page = await browser.read("/targets")
    assert "1 stock count is on hold since the database was restored" in page
    listed = await browser.read("/targets?state=held&store=main")
    assert "may be the adjustment of a newer count" in listed
    (target,) = await office.store.read(lambda reader: reader.held_targets(ALL_HELD))
    assert "A newer count replaces" in await browser.read(f"/commands/{target.id}")
    form = {"store": "main", "reason": "no newer count"}
    assert (await browser.post("/stock/release", **form)).status == 303
    assert "Stock counts of main released: 1." in await browser.read("/targets")
    assert "on hold" not in await browser.read("/targets")
    assert office.audit() == [("otto", "stock release", "no newer count")]


async def test_a_viewer_sees_counts_on_hold_and_cannot_release_them(
    office: Office,
) -> None:
    await hold(office.store, lambda seconds: office.clock.set_back(-seconds))
    browser = await office.browser("vera")
    page = await browser.read("/targets")
    assert ("on hold" in page, "/stock/release" in page) == (True, False)
    answer = await browser.post("/stock/release", store="main", reason="why")
    assert answer.status == 403
    assert len(await office.store.read(lambda reader: reader.held_by_store())) == 1


async def test_a_connector_is_triggered_at_once(office: Office) -> None:
    browser = await office.browser("otto")
    assert "Run now: courier" in await browser.read("/connectors")
    assert (await browser.post("/connectors/run", name="courier")).status == 303
    assert office.requests == ["courier"]
    assert "courier: 2 accepted." in await browser.read("/connectors")
    assert office.audit() == [("otto", "connectors run", "courier")]
    answer = await browser.post("/connectors/run", name="nobody")
    assert (answer.status, office.requests) == (422, ["courier"])


async def test_the_times_of_jobs_are_those_in_force(office: Office) -> None:
    browser = await office.browser("vera")
    assert "every 7m" not in await browser.read("/jobs")
    planned = {"prune": {"every": "7m"}}
    await office.jobs.replan(
        office.settings.model_copy(update={"jobs": settings_of(planned).jobs})
    )
    assert "every 7m" in await browser.read("/jobs")


async def test_a_move_of_stock_is_listed_by_its_product(office: Office) -> None:
    await append_and_fold(
        office.store,
        payloads.envelope("products/create", payloads.product(title="Wooden lamp")),
        payloads.envelope("inventory/level_update", payloads.stock_change()),
    )
    page = await (await office.browser("vera")).read("/mirror")
    link = '<a class="row" href="/mirror/product/main/prod_1">Wooden lamp</a>'
    assert page.count(link) == 2  # of the product, and of its stock


async def test_an_event_is_folded_again(office: Office) -> None:
    await append_and_fold(
        office.store, payloads.envelope("orders/create", payloads.order())
    )
    delete_rows(office.path, "orders")
    overwrite(office.path, "event_outcomes", {"state": "quarantined"})
    browser = await office.browser("otto")
    assert (await browser.post("/events/1/reprocess")).status == 303
    assert value_of(office.path, "orders", "name") == "#1001"
    assert "Reprocessed: folded" in await browser.read("/events/1")
    assert office.audit() == [("otto", "events reprocess", "1")]


DELIVERY = {
    "id": "dlv_1",
    "topic": "orders/create",
    "status": "FAILED",
    "attempts": [
        {"at": "2026-03-01T12:00:00Z", "statusCode": 503, "durationMs": 12},
        {"at": "2026-03-01T12:05:00Z", "statusCode": None, "error": "<b>timed out</b>"},
    ],
}


async def test_the_webhook_facts_of_the_platform_are_shown(office: Office) -> None:
    async def list_deliveries() -> list[schemas.Delivery]:
        return [decoding.delivery(DELIVERY)]

    office.deliveries["main"] = list_deliveries
    browser = await office.browser("otto")
    assert "/stores/main/deliveries" in await browser.read("/stores")
    page = await browser.read("/stores/main/deliveries")
    for told in (
        "dlv_1",
        "orders/create",
        "failed",
        "503 in 12 ms",
        "no response: &lt;b",
    ):
        assert told in page
    assert (await browser.get("/stores/none/deliveries")).status == 404
    viewer = await office.browser("vera")
    assert "/stores/main/deliveries" not in await viewer.read("/stores")


async def test_a_platform_that_cannot_be_read_is_reported(office: Office) -> None:
    async def refuse() -> list[schemas.Delivery]:
        raise Unusable("GET /webhooks: 403")

    office.deliveries["main"] = refuse
    browser = await office.browser("otto")
    answer = await browser.get("/stores/main/deliveries")
    assert (answer.status, "GET /webhooks: 403" in await answer.text()) == (422, True)


async def test_a_long_list_is_read_to_its_end_and_nothing_twice(
    office: Office,
) -> None:
    bodies = [
        payloads.envelope("orders/create", payloads.order(f"ord_{n}", number=n))
        for n in range(1, 206)
    ]
    await append_and_fold(office.store, *bodies)
    await office.index()
    browser = await office.browser("vera")
    found = await pages(browser, "/events", r'id="event-(\d+)"')
    assert [len(page) for page in found] == [100, 100, 5]
    assert [int(id_) for page in found for id_ in page] == [*range(205, 0, -1)]
    narrow = await pages(browser, "/events?state=folded", r'id="event-(\d+)"')
    assert narrow == found
    order = r'href="/mirror/order/main/([^"]+)"'
    for path in ("/mirror", "/mirror?q=ord&kind=order", "/mirror?kind=order"):
        mirrored = [id_ for page in await pages(browser, path, order) for id_ in page]
        assert len(mirrored) == len({*mirrored}), path
    assert len(mirrored) == 205


def flood(office: Office, times: int) -> None:
    """Write so many changes of one level."""
    about = {"store": "main", "kind": "level", "object_id": "prod_1"}
    change = about | {"change": "updated", "at": to_text(office.clock.now())}
    insert_many(office.path, "changes", [change | {"event": 1}] * times)


@pytest.mark.parametrize("more", [0, 1, 50])
async def test_a_frequently_changed_object_hides_no_other(
    office: Office, more: int
) -> None:
    bodies = [
        payloads.envelope("orders/create", payloads.order(f"ord_{n}", number=n))
        for n in range(1, 51)
    ]
    await append_and_fold(office.store, *bodies)
    flood(office, 2 * SCANNED - 50 + more)
    browser = await office.browser("vera")
    order = r'href="/mirror/order/main/([^"]+)"'
    for path in ("/mirror", "/mirror?kind=order"):
        found = [id_ for page in await pages(browser, path, order) for id_ in page]
        assert found == [f"ord_{n}" for n in range(50, 0, -1)], path
    page = await browser.read("/mirror?kind=order")
    assert "No object of this kind is among the latest changes" in page
    page = await browser.read("/mirror?kind=customer&before=1")
    assert "No more objects of this kind" in page
    assert 'rel="next"' not in page


PARKED = 115


async def test_parked_commands_come_first_on_every_page(office: Office) -> None:
    newest_first = [await office.plan() for _ in range(2 * PARKED)][::-1]
    for id_ in newest_first[::2]:
        await office.store.decisions.decide(Decision(id_, "park", "otto", "why"))
    browser = await office.browser("vera")
    found = await pages(browser, "/commands", r'id="command-(\w+)"')
    shown = [id_ for page in found for id_ in page]
    assert shown == newest_first[::2] + newest_first[1::2]
    assert [len(page) for page in found] == [100, 100, 30]
    parked = await pages(browser, "/commands?state=parked", r'id="command-(\w+)"')
    assert [len(page) for page in parked] == [100, 15]


async def quarantine(office: Office, row: str) -> None:
    record = NewRecord(row, None, "raw", "no reason", row)
    await office.store.records.accept(
        "courier", "main", [record], None, lambda *_: Unmatched("", final=True)
    )


async def audit(office: Office, row: str) -> None:
    await office.store.users.record_action(AuditEntry("otto", "test", row))


async def end_job(office: Office, row: str) -> None:
    now = to_text(office.clock.now())
    run = JobRun(("prune", ""), Trigger.OPERATOR, now, now)
    await office.store.job_runs.record(run, now, row)


async def end_pass(office: Office, row: str) -> None:
    begun = await office.store.passes.begin("main", "full", "orders")
    await office.store.passes.end(begun.pass_id, 0, row)


LISTS = {
    "/quarantine": quarantine,
    "/audit": audit,
    "/jobs": end_job,
    "/drift": end_pass,
}
"""What adds a row to each list."""


@pytest.mark.parametrize("path", LISTS)
async def test_every_other_long_list_is_read_to_its_end(
    office: Office, path: str
) -> None:
    for number in range(1, 230):
        await LISTS[path](office, f"row-{number}-")
    browser = await office.browser("otto")
    found = await pages(browser, path, r"(?<!<dd>)row-(\d+)-")
    assert [int(x) for page in found for x in page] == [*range(229, 0, -1)]
    assert len(found) > 1
    first = await browser.read(f"{path}?before=0")
    assert ("First page" in first, "row-1-" in first) == (True, False)
    assert "row-229-" in await browser.read(f"{path}?before=nonsense")


async def test_a_list_that_cannot_be_read_is_named_beside_the_time(
    office: Office,
) -> None:
    for note in ("", "403 no"):
        for kind in KINDS:
            at = await office.store.passes.begin("main", "full", kind)
            said = note if kind == "orders" else ""
            await office.store.passes.end(at.pass_id, 0, said)
    browser = await office.browser("vera")
    for path in ("/", "/drift"):
        page = await browser.read(path)
        assert "in sync as of" in page
        assert "orders cannot be read" in page, path


async def test_an_action_on_a_store_is_confirmed_first(office: Office) -> None:
    browser = await office.browser("otto")
    page = await browser.read("/stores")
    assert '"/stores/main/sync"' in page
    page = await browser.read("/stores/main/sync")
    assert "Full sync now: main?" in page
    answer = await browser.post("/stores/main/sync")  # no job runs here
    assert "jobs run in the daemon" in await answer.text()
    page = await browser.read("/stores/main/redeliver?delivery=d%3C1")
    assert 'name="delivery" value="d&lt;1"' in page
    for verb, said in (("test", "no webhook subscription"), ("redeliver", "choose a")):
        answer = await browser.post(f"/stores/main/{verb}")
        assert answer.status == 422
        assert said in await answer.text()
    assert (await browser.get("/stores/none/sync")).status == 404
    office.subscriptions["main"] = Subscription()
    assert (await browser.post("/stores/main/test")).status == 303
    asked = await browser.post("/stores/main/redeliver", delivery="del_1")
    assert asked.status == 303
    assert office.subscriptions["main"].requests == ["test", "del_1"]
    assert office.audit() == [
        ("otto", "stores test", "main"),
        ("otto", "stores redeliver", "main: del_1"),
    ]
    viewer = await office.browser("vera")
    assert "/stores/main/sync" not in await viewer.read("/stores")
