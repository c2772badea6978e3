"""Collections, menus, discounts and shipping zones: bodies and operations."""

import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from backhaul_reference.platform import money
from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint, Handler
from backhaul_reference.platform.http.request_bodies import (
    Body,
    Country,
    Identifier,
    Instant,
    LongText,
    Money,
    Text,
    Upper,
    Url,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import Flaw, Problem, invalid, not_found
from backhaul_reference.platform.state import collections, discounts, menus, shipping
from backhaul_reference.platform.state.database import Listing, Rows, Window
from backhaul_reference.platform.state.discounts import HUNDRED_PERCENT
from backhaul_reference.platform.state.stores import Store
from backhaul_reference.platform.state.writer import Tx

Handle = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=255)
]
ProductIds = Annotated[list[Identifier], Field(max_length=10_000)]
Match = Annotated[Literal["ALL", "ANY"], Upper]
Address = re.compile(r"(?:https?://|mailto:|tel:|/|#)\S*")
DEEPEST_MENU = 5


class Rule(Body):
    column: Annotated[Literal["TAG"], Upper] = "TAG"
    relation: Annotated[Literal["EQUALS", "NOT_EQUALS"], Upper]
    condition: Text


Rules = Annotated[list[Rule], Field(min_length=1, max_length=50)]


class CollectionFields(Body):
    handle: Handle | None = None
    description: LongText | None = None
    image_url: Url | None = None


class NewCollection(CollectionFields):
    title: Text
    type: Annotated[Literal["MANUAL", "AUTOMATIC"], Upper] = "MANUAL"
    match: Match = "ALL"
    rules: Rules | None = None
    product_ids: ProductIds = Field(default_factory=list)
    published: bool = True

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> "NewCollection":
        automatic = self.type == "AUTOMATIC"
        if automatic and not self.rules:
            raise PydanticCustomError("REQUIRED", "an automatic one needs rules")
        if automatic and self.product_ids:
            raise PydanticCustomError("NOT_ALLOWED", "its rules decide who belongs")
        if not automatic and self.rules:
            raise PydanticCustomError("NOT_ALLOWED", "a manual one has no rules")
        return self

    def values(self) -> Document:
        return {**self.model_dump(), "rules": _dumped(self.rules or [])}


class ChangedCollection(CollectionFields):
    title: Text = ""
    handle: Handle = ""
    match: Match = "ALL"
    rules: Rules = Field(default_factory=list)
    product_ids: ProductIds = Field(default_factory=list)
    published: bool = True

    def values(self) -> Document:
        return self.model_dump(exclude_unset=True)


class CollectionProducts(Body):
    product_ids: ProductIds


def _dumped(rules: list[Rule]) -> list[Document]:
    return [rule.model_dump() for rule in rules]


class MenuItem(Body):
    label: Text
    type: Annotated[Literal["PRODUCT", "COLLECTION", "URL", "PAGE"], Upper]
    target: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    children: Annotated[list["MenuItem"], Field(max_length=100)] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _leads_somewhere(self) -> "MenuItem":
        if self.type == "URL" and not Address.fullmatch(self.target):
            raise PydanticCustomError("BAD_FORMAT", "target must be an address")
        if self.type == "PAGE" and not re.fullmatch("[a-z0-9-]+", self.target):
            raise PydanticCustomError("BAD_FORMAT", "target must be a handle")
        return self

    def depth(self) -> int:
        return 1 + max((child.depth() for child in self.children), default=0)


def _shallow(items: list[MenuItem]) -> list[MenuItem]:
    if any(item.depth() > DEEPEST_MENU for item in items):
        message = f"menus are at most {DEEPEST_MENU} deep"
        raise PydanticCustomError("TOO_DEEP", "{why}", {"why": message})
    return items


class Menu(Body):
    title: Text | None = None
    items: Annotated[list[MenuItem], Field(max_length=100), AfterValidator(_shallow)]


Count = Annotated[int, Field(ge=1, le=1_000_000_000)]
DiscountType = Annotated[Literal["PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING"], Upper]
COLUMNS = {
    "usage_limit_per_customer": "customer_limit",
    "starts_at": "starts_ms",
    "ends_at": "ends_ms",
}


def _code(text: str) -> str:
    if not text.strip():
        raise PydanticCustomError("TOO_SHORT", "must not be blank")
    return text.strip()


class DiscountFields(Body):
    value: Any = None
    minimum_subtotal: Money | None = None
    usage_limit: Count | None = None
    usage_limit_per_customer: Count | None = None
    starts_at: Instant | None = None
    ends_at: Instant | None = None

    def columns(self) -> Document:
        sent = self.model_dump(exclude_unset=True, exclude={"value"})
        return {COLUMNS.get(name, name): value for name, value in sent.items()}


Code = Annotated[Text, AfterValidator(_code)]


class NewDiscount(DiscountFields):
    code: Code
    type: DiscountType
    active: bool = True

    def columns(self) -> Document:
        return {**super().columns(), "active": self.active}


class ChangedDiscount(DiscountFields):
    code: Code = ""
    type: DiscountType = "PERCENTAGE"
    active: bool = True


def discount_value(kind: str, value: Any, exponent: int) -> int:
    """Return a discount's value: hundredths of a percent, or minor units."""
    if kind == "FREE_SHIPPING":
        return 0
    if value is None:
        raise _bad_value("REQUIRED", "is required")
    try:
        # Hundredths of a percent are read as an amount with two digits.
        percent = kind == "PERCENTAGE"
        found = money.to_minor(value, 2 if percent else exponent)
    except ValueError as error:
        raise _bad_value("BAD_MONEY", str(error)) from None
    if found == 0:
        raise _bad_value("TOO_SMALL", "must be above 0")
    if percent and found > HUNDRED_PERCENT:
        raise _bad_value("TOO_BIG", "must be at most 100")
    return found


def _bad_value(code: str, detail: str) -> Problem:
    return invalid([Flaw("/value", code, detail)])


Places = Annotated[list[Text], Field(max_length=1000)]
ZIP_RANGE = re.compile(r"\s*(\d{1,18})\.\.\.(\d{1,18})\s*", re.ASCII)


def _zip_pattern(text: str) -> str:
    """An exact code, a prefix `12*`, or a range `100...200`."""
    if "..." in text:
        found = ZIP_RANGE.fullmatch(text)
        if found is None or int(found[1]) > int(found[2]):
            raise PydanticCustomError("BAD_FORMAT", "must be like 100...200")
    elif "*" in text.strip()[:-1]:
        raise PydanticCustomError("BAD_FORMAT", "the star must come last")
    return text.strip()


class Rate(Body):
    name: Text
    price: Money
    min_subtotal: Money | None = None
    max_subtotal: Money | None = None

    @model_validator(mode="after")
    def _has_an_extent(self) -> "Rate":
        low, high = self.min_subtotal or 0, self.max_subtotal
        if high is not None and high < low:
            raise PydanticCustomError("OUT_OF_RANGE", "maxSubtotal is too low")
        return self

    def stored(self) -> Document:
        return self.model_dump(by_alias=True)


Rates = Annotated[list[Rate], Field(max_length=50)]
Zips = Annotated[
    list[Annotated[Text, AfterValidator(_zip_pattern)]], Field(max_length=1000)
]
Priority = Annotated[int, Field(ge=0, le=1_000_000)]


class ZoneFields(Body):
    priority: Priority = 0
    countries: Annotated[list[Country], Field(max_length=300)] = Field(
        default_factory=list
    )
    provinces: Places = Field(default_factory=list)
    cities: Places = Field(default_factory=list)
    zips: Zips = Field(default_factory=list)

    def values(self) -> Document:
        """The members sent, with rates as they are stored."""
        sent = self.model_dump(exclude_unset=True)
        rates: list[Rate] | None = getattr(self, "rates", None)
        if rates is not None and "rates" in sent:
            sent["rates"] = [rate.stored() for rate in rates]
        return sent


class NewZone(ZoneFields):
    name: Text
    rates: Rates


class ChangedZone(ZoneFields):
    name: Text = ""
    rates: Rates = Field(default_factory=list)


ONE = "/_control/stores/{subdomain}"
Page = Callable[[Rows, Store, Window], Listing]
View = Callable[[Rows, Store, str], Document]
Create = Callable[[Tx, Store, Any], Document]
Change = Callable[[Tx, Store, str, Any], Document]
Delete = Callable[[Tx, Store, str], Document]


def lister(page: Page) -> Handler:
    async def handle(call: Call) -> web.Response:
        window = query_params.window(call.request.query)
        listing = call.read(lambda rows: page(rows, call.store, window))
        return page_answer(call.request, listing, window)

    return handle


def viewer(view: View) -> Handler:
    async def handle(call: Call) -> web.Response:
        return data_answer(
            call.read(lambda rows: view(rows, call.store, call.path("id")))
        )

    return handle


def creator(create: Create) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(create(tx, call.store, call.body), 201)
        )

    return handle


def changer(change: Change) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(change(tx, call.store, call.path("id"), call.body))
        )

    return handle


def deleter(delete: Delete) -> Handler:
    async def handle(call: Call) -> web.Response:
        return await call.mutate(
            lambda tx: Answer(delete(tx, call.store, call.path("id")))
        )

    return handle


def create_collection(tx: Tx, store: Store, body: NewCollection) -> Document:
    return collections.create(tx, store, body.values())


def change_collection(
    tx: Tx, store: Store, collection_id: str, body: ChangedCollection
) -> Document:
    return collections.change(tx, store, collection_id, body.values())


def fill_collection(
    tx: Tx, store: Store, collection_id: str, body: CollectionProducts
) -> Document:
    values = {"product_ids": body.product_ids}
    return collections.change(tx, store, collection_id, values)


def publishing(published: bool) -> Handler:
    async def handle(call: Call) -> web.Response:
        values, collection_id = {"published": published}, call.path("id")
        return await call.mutate(
            lambda tx: Answer(collections.change(tx, call.store, collection_id, values))
        )

    return handle


def create_discount(tx: Tx, store: Store, body: NewDiscount) -> Document:
    value = discount_value(body.type, body.value, store.exponent)
    return discounts.create(tx, store, {**body.columns(), "value": value})


def change_discount(
    tx: Tx, store: Store, discount_id: str, body: ChangedDiscount
) -> Document:
    """Merge a change; a new type needs a value of its own."""
    columns = body.columns()
    if {"type", "value"} & body.model_fields_set:
        before = discounts.find(tx, store, discount_id)
        kind = columns.get("type", before["type"])
        columns["value"] = discount_value(kind, body.value, store.exponent)
    return discounts.change(tx, store, discount_id, columns)


def create_zone(tx: Tx, store: Store, body: NewZone) -> Document:
    return shipping.create(tx, store, body.values())


def change_zone(tx: Tx, store: Store, zone_id: str, body: ChangedZone) -> Document:
    return shipping.change(tx, store, zone_id, body.values())


async def list_menus(call: Call) -> web.Response:
    return data_answer(call.read(lambda rows: menus.control_views(rows, call.store.id)))


async def get_menu(call: Call) -> web.Response:
    handle = call.path("handle")
    return data_answer(
        call.read(lambda rows: menus.control_view(rows, call.store.id, handle))
    )


async def put_menu(call: Call) -> web.Response:
    body: Menu = call.body
    handle = call.path("handle")
    if not menus.HANDLE.fullmatch(handle):
        raise not_found("MENU")
    items = [item.model_dump() for item in body.items]
    return await call.mutate(
        lambda tx: Answer(menus.put(tx, call.store.id, handle, body.title, items))
    )


async def delete_menu(call: Call) -> web.Response:
    store_id, handle = call.store.id, call.path("handle")
    return await call.mutate(lambda tx: Answer(menus.delete(tx, store_id, handle)))


COLLECTIONS, DISCOUNTS = f"{ONE}/collections", f"{ONE}/discounts"
ZONES, MENUS = f"{ONE}/zones", f"{ONE}/menus"
COLLECTION, DISCOUNT = COLLECTIONS + "/{id}", DISCOUNTS + "/{id}"
ZONE, MENU = ZONES + "/{id}", MENUS + "/{handle}"
ENDPOINTS = (
    Endpoint("GET", COLLECTIONS, lister(collections.page)),
    Endpoint("POST", COLLECTIONS, creator(create_collection), body=NewCollection),
    Endpoint("GET", COLLECTION, viewer(collections.view)),
    Endpoint("PUT", COLLECTION, changer(change_collection), body=ChangedCollection),
    Endpoint("DELETE", COLLECTION, deleter(collections.delete)),
    Endpoint(
        "PUT",
        COLLECTION + "/products",
        changer(fill_collection),
        body=CollectionProducts,
    ),
    Endpoint("POST", COLLECTION + "/publish", publishing(True)),
    Endpoint("POST", COLLECTION + "/unpublish", publishing(False)),
    Endpoint("GET", DISCOUNTS, lister(discounts.page)),
    Endpoint("POST", DISCOUNTS, creator(create_discount), body=NewDiscount),
    Endpoint("GET", DISCOUNT, viewer(discounts.view)),
    Endpoint("PUT", DISCOUNT, changer(change_discount), body=ChangedDiscount),
    Endpoint("DELETE", DISCOUNT, deleter(discounts.delete)),
    Endpoint("GET", ZONES, lister(shipping.page)),
    Endpoint("POST", ZONES, creator(create_zone), body=NewZone),
    Endpoint("GET", ZONE, viewer(shipping.view)),
    Endpoint("PUT", ZONE, changer(change_zone), body=ChangedZone),
    Endpoint("DELETE", ZONE, deleter(shipping.delete)),
    Endpoint("GET", MENUS, list_menus),
    Endpoint("GET", MENU, get_menu),
    Endpoint("PUT", MENU, put_menu, body=Menu),
    Endpoint("DELETE", MENU, delete_menu),
)
