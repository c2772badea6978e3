"""/api/v1/webhooks/{id}: deliveries, replays, tests and new secrets."""

from typing import Annotated

from aiohttp import web
from pydantic import Field

from backhaul_reference.admin_v1.webhooks import ONE, Topic, readable
from backhaul_reference.problems import Flaw, invalid
from backhaul_reference.state import deliveries, replays, subscriptions
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.bodies import Body, Instant
from backhaul_reference.web.endpoint import Answer, Call, Endpoint


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
            replays.rotate_secret(tx, subscriptions.find(tx, store_id, webhook_id))
        )
    )


async def send_test(call: Call) -> web.Response:
    readable(call)
    store_id, webhook_id = call.store.id, call.path("id")
    return await call.mutate(
        lambda tx: Answer(
            replays.send_test(tx, subscriptions.find(tx, store_id, webhook_id)), 202
        )
    )


async def replay(call: Call) -> web.Response:
    body: Replay = call.body
    topics = body.chosen(subscriptions.topics_of(readable(call)))
    store_id, webhook_id = call.store.id, call.path("id")

    def queue(tx: Tx) -> Answer:
        row = subscriptions.find(tx, store_id, webhook_id)
        return Answer(replays.replay(tx, row, body.since, topics), 202)

    return await call.mutate(queue)


async def list_deliveries(call: Call) -> web.Response:
    window = queries.window(call.query)
    row = readable(call)
    listing = call.read(lambda rows: deliveries.page(rows, row["id"], window))
    return page_answer(call.request, listing, window)


async def get_delivery(call: Call) -> web.Response:
    row = readable(call)
    delivery_id = call.path("delivery_id")
    found = call.read(lambda rows: deliveries.view(rows, row["id"], delivery_id))
    return data_answer(found)


async def redeliver(call: Call) -> web.Response:
    readable(call)
    store_id, webhook_id = call.store.id, call.path("id")
    delivery_id = call.path("delivery_id")

    def queue(tx: Tx) -> Answer:
        row = subscriptions.find(tx, store_id, webhook_id)
        return Answer(deliveries.redeliver(tx, row, delivery_id), 202)

    return await call.mutate(queue)


DELIVERY = ONE + "/deliveries/{delivery_id}"
ENDPOINTS = (
    Endpoint("POST", ONE + "/rotate-secret", rotate_secret),
    Endpoint("POST", ONE + "/test", send_test),
    Endpoint("POST", ONE + "/replay", replay, body=Replay),
    Endpoint("GET", ONE + "/deliveries", list_deliveries),
    Endpoint("GET", DELIVERY, get_delivery),
    Endpoint("POST", DELIVERY + "/redeliver", redeliver),
)
