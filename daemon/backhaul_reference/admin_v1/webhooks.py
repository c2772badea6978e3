"""/api/v1/webhooks: any key may manage what its read scopes cover."""

from typing import Annotated, Literal

from aiohttp import web
from pydantic import Field, StringConstraints

from backhaul_reference.admin_v1.admission import require_scopes
from backhaul_reference.documents import Document
from backhaul_reference.problems import Flaw, invalid
from backhaul_reference.state import subscriptions
from backhaul_reference.state.database import Row
from backhaul_reference.state.events import TOPICS
from backhaul_reference.state.writer import Tx
from backhaul_reference.web import queries
from backhaul_reference.web.answers import data_answer, page_answer
from backhaul_reference.web.bodies import Body, OptionalText, Upper
from backhaul_reference.web.endpoint import Answer, Call, Endpoint
from backhaul_reference.webhooks import targets

Address = Annotated[str, StringConstraints(max_length=2048, pattern=targets.ADDRESS)]
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
        refused = targets.refusal(values["address"], allow_private=allow_private)
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
    window = queries.window(call.query)
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
