"""/api/v1/inventory: operations and request bodies."""

from typing import Annotated

from aiohttp import web
from pydantic import Field, field_validator
from pydantic_core import PydanticCustomError

from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    WHOLE,
    Body,
    Identifier,
    LongText,
    Upper,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.models import ClientReason
from backhaul_reference.platform.state import inventory
from backhaul_reference.platform.state.inventory import MAX_STOCK, Adjustment

MAX_ADJUSTMENT = 1_000_000


class StockChange(Body):
    product_id: Identifier
    variant_id: Identifier | None = None
    reason: Annotated[ClientReason, Upper] = "MANUAL_ADJUSTMENT"
    expected_stock: Annotated[int, Field(ge=-MAX_STOCK, le=MAX_STOCK), WHOLE] | None = (
        None
    )
    note: LongText | None = None

    def wanted(self, amount: int, *, absolute: bool) -> Adjustment:
        return Adjustment(
            product_id=self.product_id,
            variant_id=self.variant_id,
            amount=amount,
            absolute=absolute,
            reason=self.reason,
            note=self.note,
            expected=self.expected_stock,
        )


class Adjust(StockChange):
    adjustment: Annotated[
        int,
        Field(
            ge=-MAX_ADJUSTMENT,
            le=MAX_ADJUSTMENT,
            json_schema_extra={"not": {"const": 0}},
        ),
        WHOLE,
    ]

    @field_validator("adjustment")
    @classmethod
    def _moves_something(cls, value: int) -> int:
        if value == 0:
            raise PydanticCustomError("NOT_ALLOWED", "must not be zero")
        return value


class SetStock(StockChange):
    stock: Annotated[int, Field(ge=0, le=MAX_STOCK), WHOLE]


async def list_levels(call: Call) -> web.Response:
    window = query_params.window(call.query)
    listing = call.read(lambda rows: inventory.levels(rows, call.store.id, window))
    return page_answer(call.request, listing, window)


async def list_history(call: Call) -> web.Response:
    query = call.query
    window = query_params.window(query)
    filters = {
        "product_id": query_params.text(query, "productId"),
        "variant_id": query_params.text(query, "variantId"),
        "order_id": query_params.text(query, "orderId"),
        "reason": query_params.choice(query, "reason", inventory.REASONS),
    }
    listing = call.read(
        lambda rows: inventory.history(rows, call.store.id, filters, window)
    )
    return page_answer(call.request, listing, window)


async def get_levels(call: Call) -> web.Response:
    product_id = call.path("product_id")
    return data_answer(
        call.read(
            lambda rows: inventory.product_levels(rows, call.store.id, product_id)
        )
    )


async def adjust(call: Call) -> web.Response:
    return await _change(call, call.body.wanted(call.body.adjustment, absolute=False))


async def set_stock(call: Call) -> web.Response:
    return await _change(call, call.body.wanted(call.body.stock, absolute=True))


async def _change(call: Call, wanted: Adjustment) -> web.Response:
    store, source = call.store, call.caller.source
    return await call.mutate(
        lambda tx: Answer(inventory.adjust(tx, store, source, wanted))
    )


PATH = "/api/v1/inventory"
READ, WRITE = "inventory:read", "inventory:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_levels, READ),
    Endpoint("GET", PATH + "/history", list_history, READ),
    Endpoint("POST", PATH + "/adjust", adjust, WRITE, body=Adjust),
    Endpoint("POST", PATH + "/set", set_stock, WRITE, body=SetStock),
    Endpoint("GET", PATH + "/{product_id}", get_levels, READ),
)
