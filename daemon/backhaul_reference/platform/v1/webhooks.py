"""/api/v1/webhooks: subscriptions, deliveries, tests, replays, secrets."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field, StringConstraints

from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    Body,
    Instant,
    OptionalText,
    Upper,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, invalid
from backhaul_reference.platform.state import subscriptions, webhook_outbox
from backhaul_reference.platform.state.database import Row
from backhaul_reference.platform.state.webhook_outbox import TOPICS
from backhaul_reference.platform.state.writer import Tx
from backhaul_reference.platform.v1.auth import require_scopes
from backhaul_reference.platform.webhooks import ssrf_guard

Address = Annotated[str, StringConstraints(max_length=2048, pattern=ssrf_guard.ADDRESS)]
Topic = Annotated[
    str,
    StringConstraints(max_length=64),
    Field(json_schema_extra={"enum": [*TOPICS]}),
]
Topics = Annotated[list[Topic], Field(min_length=1, max_length=50)]


class NewWebhook(Body):
    address: Address
    topics: Topics
    description: OptionalText | None = None


class ChangedWebhook(Body):
    address: Address = ""
    topics: Topics = Field(default_factory=list)
    description: OptionalText | None = None
    status: Annotated[Literal["ACTIVE", "PAUSED"], Upper] = "ACTIVE"


def check(body: Body, *, allow_private: bool) -> Document:
    """The members sent, once topics exist and the address may be called."""
    values = body.model_dump(exclude_unset=True)
    flaws = [
        Flaw(f"/topics/{n}", "NOT_ALLOWED", "there is no such topic")
        for n, topic in enumerate(values.get("topics", ()))
        if topic not in TOPICS
    ]
    if "address" in values:
        refused = ssrf_guard.refusal(values["address"], allow_private=allow_private)
        if refused is not None:
            flaws.append(Flaw("/address", "NOT_ALLOWED", refused))
    if flaws:
        raise invalid(flaws)
    return values


def scopes_for(topics: list[str]) -> list[str]:
    return sorted({f"{topic.partition('/')[0]}:read" for topic in topics})


def _checked(call: Call) -> Document:
    values = check(call.body, allow_private=call.platform.allow_private_targets)
    require_scopes(call.caller.scopes, scopes_for(values.get("topics", [])))
    return values


async def list_webhooks(call: Call) -> web.Response:
    window = query_params.window(call.query)
    held = call.caller.scopes
    topics = [one for one in TOPICS if held.issuperset(scopes_for([one]))]
    listing = call.read(
        lambda rows: subscriptions.page(rows, call.store.id, window, topics)
    )
    return page_answer(call.request, listing, window)


async def create_webhook(call: Call) -> web.Response:
    values = _checked(call)

    def create(tx: Tx) -> Answer:
        made = subscriptions.add(
            tx,
            call.store.id,
            values["address"],
            values["topics"],
            values.get("description"),
        )
        return Answer(made, 201, location=f"{PATH}/{made['id']}")

    return await call.mutate(create)


async def get_webhook(call: Call) -> web.Response:
    return data_answer(subscriptions.subscription_view(readable(call)))


async def update_webhook(call: Call) -> web.Response:
    # A new address would receive all that the topics carry.
    readable(call)
    values = _checked(call)

    return await call.mutate(
        lambda tx: Answer(
            subscriptions.change(tx, call.store.id, call.path("id"), values)
        )
    )


async def delete_webhook(call: Call) -> web.Response:
    readable(call)
    return await call.mutate(
        lambda tx: Answer(subscriptions.remove(tx, call.store.id, call.path("id")))
    )


def readable(call: Call) -> Row:
    """The subscription in the path, if the key may read all that it carries."""
    row = call.read(
        lambda rows: subscriptions.find(rows, call.store.id, call.path("id"))
    )
    require_scopes(call.caller.scopes, scopes_for(subscriptions.topics_of(row)))
    return row


PATH = "/api/v1/webhooks"
ONE = PATH + "/{id}"
ENDPOINTS = (
    Endpoint("GET", PATH, list_webhooks),
    Endpoint("POST", PATH, create_webhook, body=NewWebhook),
    Endpoint("GET", ONE, get_webhook),
    Endpoint("PUT", ONE, update_webhook, body=ChangedWebhook),
    Endpoint("DELETE", ONE, delete_webhook),
)


class Replay(Body):
    since: Instant
    topics: Annotated[list[Topic], Field(min_length=1, max_length=50)] | None = None

    def chosen(self, subscribed: list[str]) -> list[str]:
        """The topics to replay: those named, else all that are subscribed."""
        flaws = [
            Flaw(f"/topics/{n}", "NOT_ALLOWED", "the subscription has no such topic")
            for n, topic in enumerate(self.topics or ())
            if topic not in subscribed
        ]
        if flaws:
            raise invalid(flaws)
        return self.topics or subscribed


async def rotate_secret(call: Call) -> web.Response:
    readable(call)
    store_id, webhook_id = call.store.id, call.path("id")
    return await call.mutate(
        lambda tx: Answer(
            subscriptions.rotate_secret(
                tx, subscriptions.find(tx, store_id, webhook_id)
            )
        )
    )


async def send_test(call: Call) -> web.Response:
    readable(call)
    store_id, webhook_id = call.store.id, call.path("id")
    return await call.mutate(
        lambda tx: Answer(
            subscriptions.send_test(tx, subscriptions.find(tx, store_id, webhook_id)),
            202,
        )
    )


async def replay(call: Call) -> web.Response:
    body: Replay = call.body
    topics = body.chosen(subscriptions.topics_of(readable(call)))
    store_id, webhook_id = call.store.id, call.path("id")

    def queue(tx: Tx) -> Answer:
        row = subscriptions.find(tx, store_id, webhook_id)
        return Answer(subscriptions.replay(tx, row, body.since, topics), 202)

    return await call.mutate(queue)


async def list_deliveries(call: Call) -> web.Response:
    window = query_params.window(call.query)
    row = readable(call)
    listing = call.read(lambda rows: webhook_outbox.page(rows, row["id"], window))
    return page_answer(call.request, listing, window)


async def get_delivery(call: Call) -> web.Response:
    row = readable(call)
    delivery_id = call.path("delivery_id")
    found = call.read(lambda rows: webhook_outbox.view(rows, row["id"], delivery_id))
    return data_answer(found)


async def redeliver(call: Call) -> web.Response:
    readable(call)
    store_id, webhook_id = call.store.id, call.path("id")
    delivery_id = call.path("delivery_id")

    def queue(tx: Tx) -> Answer:
        row = subscriptions.find(tx, store_id, webhook_id)
        return Answer(webhook_outbox.redeliver(tx, row, delivery_id), 202)

    return await call.mutate(queue)


DELIVERY = ONE + "/deliveries/{delivery_id}"
DELIVERY_ENDPOINTS = (
    Endpoint("POST", ONE + "/rotate-secret", rotate_secret),
    Endpoint("POST", ONE + "/test", send_test),
    Endpoint("POST", ONE + "/replay", replay, body=Replay),
    Endpoint("GET", ONE + "/deliveries", list_deliveries),
    Endpoint("GET", DELIVERY, get_delivery),
    Endpoint("POST", DELIVERY + "/redeliver", redeliver),
)
