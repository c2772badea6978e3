"""How the daemon handles strange responses about its own webhook subscription."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from backhaul.core.webhook import TOPICS
from backhaul.errors import Busy
from backhaul.platform.store_credentials import WebhookSecretFile
from backhaul.sync.webhook_subscriptions import AcceptedSecrets, SubscriptionManager
from scenes import payloads
from scenes.scripted_platform import document, message

if TYPE_CHECKING:
    from pathlib import Path

    from scenes.scripted_platform import Connection, Request
    from sync.conftest import Place

URL = "https://hooks.example"
HOOK: payloads.Document = {
    "id": "wh_1",
    "address": f"{URL}/webhooks/main",
    "status": "ACTIVE",
    "topics": list(TOPICS),
    "consecutiveFailures": 0,
}
GIVEN = {"data": HOOK | {"secret": "whsec_given"}}


class Admission:
    """Accepts secrets, or raises Busy."""

    def __init__(self) -> None:
        self.busy = False
        self.taken: list[list[bytes]] = []

    async def __call__(self, secrets: list[bytes]) -> None:
        if self.busy:
            raise Busy("the disk is full")
        self.taken.append(secrets)


@pytest.fixture
def admission() -> Admission:
    return Admission()


@pytest.fixture
def manager(place: Place, tmp_path: Path, admission: Admission) -> SubscriptionManager:
    keyring = WebhookSecretFile(tmp_path, "main", lambda _: None)
    place.platform.respond("/webhooks", document({"data": []}))
    return SubscriptionManager(
        "main",
        URL,
        place.client,
        keyring,
        place.store.kv,
        AcceptedSecrets(admission, lambda: True),
    )


def list_subscription(place: Place, **members: Any) -> None:
    """Let the platform list our subscription, with these members."""
    page = document({"data": [HOOK | members]})
    place.platform.respond("/webhooks", page, document({"data": []}))


def delivered(place: Place, status: int, at: int) -> None:
    attempts = [{"at": payloads.instant(at), "statusCode": status}]
    page = document({"data": [{"attempts": None}, {"attempts": attempts}]})
    place.platform.respond("/webhooks/wh_1/deliveries", page)


def sent(place: Place, method: str) -> list[Any]:
    return [request.json() for request in place.server.of(method)]


STRANGE: dict[str, Any] = {
    "no id": {"id": None},
    "topics": {"topics": [7]},
    "failures": {"consecutiveFailures": "many"},
    "deliveries": {"consecutiveFailures": 1},
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_answer_is_reported(
    name: str, place: Place, manager: SubscriptionManager
) -> None:
    strange = {"data": [{"attempts": [{"at": "yesterday"}]}]}
    place.platform.respond("/webhooks/wh_1/deliveries", document(strange))
    list_subscription(place, **STRANGE[name])
    await manager.check()
    assert "could not be checked or repaired" in manager.state()
    assert sent(place, "POST") == []


async def test_without_evidence_no_secret_is_replaced(
    place: Place, tmp_path: Path, admission: Admission
) -> None:
    """A new secret would not help, however often the platform retries.

    The subscription is enabled anyway: only a delivery can give evidence.
    """
    why = "the signature header came twice"
    manager = SubscriptionManager(
        "main",
        URL,
        place.client,
        WebhookSecretFile(tmp_path, "main", lambda _: None),
        place.store.kv,
        AcceptedSecrets(admission, lambda: True, lambda: why),
    )
    delivered(place, 401, 3)
    for _ in range(3):
        list_subscription(place, consecutiveFailures=3, status="DISABLED")
        await manager.check()
    assert "the signature header came twice" in manager.state()
    assert sent(place, "POST") == []
    assert sent(place, "PUT") == [{"status": "ACTIVE"}] * 3
    why = ""
    place.platform.respond("/webhooks/wh_1/rotate-secret", document(GIVEN))
    list_subscription(place, consecutiveFailures=4)
    await manager.check()
    assert len(sent(place, "POST")) == 1


async def test_a_list_of_strange_rows_is_reported(
    place: Place, manager: SubscriptionManager
) -> None:
    place.platform.respond("/webhooks", document({"data": [7]}))
    await manager.check()
    assert "could not be checked or repaired" in manager.state()


async def test_a_foreign_row_may_be_strange(
    place: Place, manager: SubscriptionManager
) -> None:
    rows = document({"data": [{"address": 7}, HOOK]})
    place.platform.respond("/webhooks", rows, document({"data": []}))
    await manager.check()
    assert manager.state() == ""


async def test_a_list_without_pages_ends_though_its_rows_move(
    place: Place, manager: SubscriptionManager
) -> None:
    """It returns its only page for each page number, and its rows change."""
    asked: list[str] = []

    async def say(request: Request, connection: Connection) -> None:
        asked.append(request.query)
        row = HOOK | {"deliveries": len(asked)}
        await connection.send(document({"data": [row]}))

    place.platform.respond("/webhooks", say)
    async with asyncio.timeout(30):
        await manager.check()
    assert manager.state() == ""
    assert len(asked) == 2


async def test_a_list_without_an_end_is_reported_and_nothing_created(
    place: Place, manager: SubscriptionManager
) -> None:
    asked: list[str] = []

    async def say(request: Request, connection: Connection) -> None:
        asked.append(request.query)
        row = HOOK | {"id": f"wh_{len(asked)}", "address": "https://other.example"}
        await connection.send(document({"data": [row]}))

    place.platform.respond("/webhooks", say)
    async with asyncio.timeout(60):
        await manager.check()
    assert "has more than 100 pages" in manager.state()
    assert sent(place, "POST") == []


async def test_without_topics_it_gets_them(
    place: Place, manager: SubscriptionManager
) -> None:
    list_subscription(place, topics=None)
    place.platform.respond("/webhooks/wh_1", document({"data": HOOK}))
    await manager.check()
    assert sent(place, "PUT") == [{"topics": list(TOPICS)}]


async def test_a_full_database_is_reported(
    place: Place, manager: SubscriptionManager, admission: Admission
) -> None:
    place.platform.respond("/webhooks", document({"data": []}), document(GIVEN))
    admission.busy = True
    await manager.check()
    assert "the disk is full" in manager.state()


async def test_a_full_disk_is_reported(
    place: Place, manager: SubscriptionManager, tmp_path: Path
) -> None:
    (tmp_path / "secrets" / "main.new").mkdir(parents=True)
    place.platform.respond("/webhooks", document({"data": []}), document(GIVEN))
    await manager.check()
    assert "main.new" in manager.state()


async def test_a_quiet_shop_s_secret_is_replaced_once(
    place: Place, manager: SubscriptionManager, admission: Admission
) -> None:
    place.platform.respond("/webhooks/wh_1/rotate-secret", document(GIVEN))
    delivered(place, 401, at=10)
    for _ in range(3):
        list_subscription(place, consecutiveFailures=1)
        await manager.check()
    assert len(admission.taken) == 1
    delivered(place, 401, at=20)
    list_subscription(place, consecutiveFailures=2)
    await manager.check()
    assert len(admission.taken) == 2
    delivered(place, 503, at=30)
    list_subscription(place, consecutiveFailures=3)
    await manager.check()
    assert len(admission.taken) == 2


NO_CUSTOMERS = {"code": "INSUFFICIENT_SCOPE", "requiredScopes": ["customers:read"]}


async def test_a_topic_that_is_forbidden_costs_no_other(
    place: Place, manager: SubscriptionManager
) -> None:
    list_subscription(place, topics=["orders/create"])
    place.platform.respond(
        "/webhooks/wh_1", document(NO_CUSTOMERS, 403), document({"data": HOOK})
    )
    await manager.check()
    allowed = {topic for topic in TOPICS if not topic.startswith("customers")}
    assert set(sent(place, "PUT")[-1]["topics"]) == allowed
    assert "customers/create" in manager.state()
    assert "products/create" not in manager.state()


RESOURCES = ("orders", "products", "inventory", "customers")


def without(*resources: str) -> list[str]:
    return [topic for topic in TOPICS if topic.partition("/")[0] not in resources]


def refuse_without_scopes(place: Place, *forbidden: str) -> list[str]:
    """Let the platform refuse topics of these resources without naming scopes.

    Return the topics of our subscription; the list is empty before it is created.
    """
    topics: list[str] = []

    async def say(request: Request, connection: Connection) -> None:
        if request.method == "GET":
            shown = [HOOK | {"topics": topics}] if topics else []
            first = request.query.startswith("page=1&")
            await connection.send(document({"data": shown if first else []}))
            return
        wanted = request.json()["topics"]
        if {topic.partition("/")[0] for topic in wanted} & set(forbidden):
            await connection.send(document({"error": "not allowed"}, 403))
            return
        topics[:] = wanted
        await connection.send(document(GIVEN))

    place.platform.respond("/webhooks", say)
    place.platform.respond("/webhooks/wh_1", say)
    return topics


@pytest.mark.parametrize(
    "forbidden",
    [("customers",), ("orders",), ("orders", "inventory"), RESOURCES[:3]],
    ids="-".join,
)
async def test_a_scope_that_no_answer_names_costs_no_other_topic(
    place: Place,
    manager: SubscriptionManager,
    admission: Admission,
    forbidden: tuple[str, ...],
) -> None:
    topics = refuse_without_scopes(place, *forbidden)
    for _ in range(2):
        await manager.check()
        assert sorted(topics) == sorted(without(*forbidden))
        lacking = [topic for topic in TOPICS if topic not in topics]
        said = (
            f"the API key may not subscribe to {', '.join(lacking)}: Backhaul polls"
            " these changes instead"
        )
        assert manager.state() == said
    assert len(admission.taken) == 1


async def test_a_key_that_may_have_no_topic_is_reported(
    place: Place, manager: SubscriptionManager
) -> None:
    assert refuse_without_scopes(place, *RESOURCES) == []
    await manager.check()
    assert manager.state() == (
        "no webhook subscription could be created: 403 not allowed"
    )


@pytest.mark.parametrize("forbidden", [("customers",), ("customers", "products")])
async def test_topics_that_are_missing_come_though_one_is_forbidden(
    place: Place, manager: SubscriptionManager, forbidden: tuple[str, ...]
) -> None:
    topics = refuse_without_scopes(place, *forbidden)
    topics.append("orders/create")
    await manager.check()
    assert sorted(topics) == sorted(without(*forbidden))
    assert "customers/create" in manager.state()
    assert "inventory/level_update" not in manager.state()


async def test_a_repair_that_fails_halfway_is_reported(
    place: Place, manager: SubscriptionManager
) -> None:
    list_subscription(place, topics=["orders/create"])
    refused = document({"error": "not allowed"}, 403)
    place.platform.respond("/webhooks/wh_1", refused, message(500))
    await manager.check()
    assert "could not be repaired: 500" in manager.state()


async def test_each_answer_is_checked(
    place: Place, manager: SubscriptionManager
) -> None:
    list_subscription(place, topics=["orders/create"], status="DISABLED")
    refused = document({"code": "INSUFFICIENT_SCOPE"}, 403)
    place.platform.respond("/webhooks/wh_1", refused, message(500))
    await manager.check()
    assert sent(place, "PUT")[-1] == {"status": "ACTIVE"}
    assert "could not be repaired" in manager.state()
