"""/api/v1/customers: operations and request bodies."""

from typing import Annotated

from aiohttp import web
from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    Body,
    Country,
    Email,
    Identifier,
    LongText,
    OptionalText,
    Phone,
    Tags,
    Text,
    at_least_one,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import customers
from backhaul_reference.platform.state.writer import Tx


class Address(Body):
    id: Identifier | None = None
    name: OptionalText | None = None
    phone: Phone | None = None
    address1: OptionalText | None = None
    address2: OptionalText | None = None
    city: OptionalText | None = None
    province: OptionalText | None = None
    country: Country | None = None
    zip: OptionalText | None = None
    is_default: bool = False


class ChangedCustomer(Body):
    email: Email | None = None
    phone: Phone | None = None
    first_name: OptionalText | None = None
    last_name: OptionalText | None = None
    name: OptionalText | None = None
    tags: Tags | None = None
    note: LongText | None = None
    accepts_marketing: bool | None = None
    addresses: Annotated[list[Address], Field(max_length=100)] | None = None
    external_id: Text | None = None

    def values(self) -> Document:
        """The members that were sent, by their field names."""
        return self.model_dump(exclude_unset=True)


REACHED: list[Document] = [
    {"required": [name], "properties": {name: {"type": "string"}}}
    for name in ("email", "phone")
]


class NewCustomer(ChangedCustomer):
    model_config = ConfigDict(json_schema_extra=at_least_one(*REACHED))

    @model_validator(mode="after")
    def _can_be_reached(self) -> "NewCustomer":
        if not self.email and not self.phone:
            raise PydanticCustomError("REQUIRED", "email or phone is required")
        return self


async def list_customers(call: Call) -> web.Response:
    window = query_params.window(call.query, sortable=True)
    filters = {"external_id": query_params.text(call.query, "externalId")}
    listing = call.read(lambda rows: customers.page(rows, call.store, filters, window))
    return page_answer(call.request, listing, window)


async def get_customer(call: Call) -> web.Response:
    found = call.read(lambda rows: customers.view(rows, call.store, call.path("id")))
    return data_answer(found)


async def create_customer(call: Call) -> web.Response:
    values = call.body.values()

    def create(tx: Tx) -> Answer:
        made = customers.create(tx, call.store, values)
        return Answer(made, 201, location=f"{PATH}/{made['id']}")

    return await call.mutate(create)


async def update_customer(call: Call) -> web.Response:
    store, customer_id, values = call.store, call.path("id"), call.body.values()
    return await call.mutate(
        lambda tx: Answer(customers.update(tx, store, customer_id, values))
    )


async def delete_customer(call: Call) -> web.Response:
    store, customer_id = call.store, call.path("id")
    return await call.mutate(
        lambda tx: Answer(customers.delete(tx, store, customer_id))
    )


PATH = "/api/v1/customers"
ONE = PATH + "/{id}"
READ, WRITE = "customers:read", "customers:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_customers, READ),
    Endpoint("POST", PATH, create_customer, WRITE, body=NewCustomer),
    Endpoint("GET", ONE, get_customer, READ),
    Endpoint("PUT", ONE, update_customer, WRITE, body=ChangedCustomer),
    Endpoint("DELETE", ONE, delete_customer, WRITE),
)
