"""/api/v1/products: operations and request bodies."""

from typing import Annotated, Any, Literal

from aiohttp import web
from pydantic import (
    ConfigDict,
    Field,
    StringConstraints,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from backhaul_reference.platform.http import query_params
from backhaul_reference.platform.http.endpoint import Answer, Call, Endpoint
from backhaul_reference.platform.http.request_bodies import (
    MONEY_SENT,
    WHOLE,
    Body,
    Identifier,
    LongText,
    Lower,
    Money,
    OptionalText,
    Tags,
    Text,
    Upper,
    Url,
    at_least_one,
)
from backhaul_reference.platform.http.responses import data_answer, page_answer
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state import products
from backhaul_reference.platform.state.inventory import MAX_STOCK
from backhaul_reference.platform.state.writer import Tx

Handle = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=255)
]
ProductStatus = Annotated[Literal["active", "draft", "archived"], Lower]
Policy = Annotated[Literal["DENY", "CONTINUE"], Upper]
Stock = Annotated[int, Field(ge=0, le=MAX_STOCK), WHOLE]
ReadOnly = Annotated[Any, WithJsonSchema({"not": {}})]
NAME: Document = {
    "type": "string",
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^[^\x00]*$",
}
Options = Annotated[
    dict[Text, Text],
    Field(max_length=10),
    WithJsonSchema(
        {
            "type": "object",
            "maxProperties": 10,
            "propertyNames": NAME,
            "additionalProperties": NAME,
        }
    ),
]


class Image(Body):
    url: Url
    alt: OptionalText | None = None


class Option(Body):
    name: Text
    values: Annotated[list[Text], Field(max_length=100)]


class VariantFields(Body):
    title: OptionalText | None = None
    sku: Text | None = None
    barcode: OptionalText | None = None
    compare_at_price: Money | None = None
    track_inventory: bool | None = None
    inventory_policy: Policy | None = None
    options: Options | None = None
    image_url: Url | None = None
    weight_grams: Annotated[int, Field(ge=0, le=10**9), WHOLE] | None = None


class NewVariant(VariantFields):
    price: Money
    stock: Stock = 0


def not_null(schema: Document) -> None:
    """Absent means unchanged; there is no value that clears it."""
    schema |= schema.pop("anyOf")[0]


NEW_OR_KNOWN: list[Document] = [
    {"required": ["price"]},
    {"required": ["id"], "properties": {"id": {"type": "string"}}},
]


class ChangedVariant(VariantFields):
    model_config = ConfigDict(json_schema_extra=at_least_one(*NEW_OR_KNOWN))

    id: Identifier | None = None
    price: Annotated[Money | None, WithJsonSchema(MONEY_SENT)] = None
    stock: ReadOnly = None

    @field_validator("stock", mode="before")
    @classmethod
    def _stock_is_read_only(cls, value: Any) -> Any:
        raise read_only()

    @model_validator(mode="after")
    def _price_cannot_be_cleared(self) -> "ChangedVariant":
        if "price" in self.model_fields_set and self.price is None:
            raise PydanticCustomError("WRONG_TYPE", "price cannot be cleared")
        return self


class ProductFields(Body):
    handle: Handle | None = None
    description: LongText | None = None
    vendor: OptionalText | None = None
    product_type: OptionalText | None = None
    tags: Tags | None = None
    images: Annotated[list[Image], Field(max_length=50)] | None = None
    options: Annotated[list[Option], Field(max_length=10)] | None = None
    external_id: Text | None = None
    seo_title: OptionalText | None = None
    seo_description: LongText | None = None
    collection_ids: Annotated[list[Identifier], Field(max_length=100)] | None = None


PRICED: list[Document] = [
    {"required": ["variants"], "properties": {"variants": {"type": "array"}}},
    {
        "required": ["price"],
        "properties": {"price": {"type": ["string", "number"]}},
    },
]


class NewProduct(ProductFields):
    model_config = ConfigDict(json_schema_extra=at_least_one(*PRICED))

    title: Text
    status: ProductStatus = "active"
    variants: (
        Annotated[list[NewVariant], Field(min_length=1, max_length=100)] | None
    ) = None
    price: Money | None = None
    sku: Text | None = None
    stock: Stock = 0

    @model_validator(mode="after")
    def _has_a_price(self) -> "NewProduct":
        if self.variants is None and self.price is None:
            raise PydanticCustomError("REQUIRED", "price or variants is required")
        return self


class ChangedProduct(ProductFields):
    handle: Annotated[Handle | None, Field(json_schema_extra=not_null)] = None
    title: Text = ""
    status: ProductStatus = "active"
    variants: list[ChangedVariant] = Field(
        default_factory=list, min_length=1, max_length=100
    )
    price: Money = 0
    sku: Text | None = None
    stock: ReadOnly = None

    @field_validator("stock", mode="before")
    @classmethod
    def _stock_is_read_only(cls, value: Any) -> Any:
        raise read_only()

    @field_validator("handle")
    @classmethod
    def _handle_cannot_be_cleared(cls, value: str | None) -> str:
        if value is None:
            raise PydanticCustomError("WRONG_TYPE", "handle cannot be cleared")
        return value


def read_only() -> PydanticCustomError:
    return PydanticCustomError("READ_ONLY", "stock changes through inventory only")


def values_of(body: NewProduct | ChangedProduct) -> Document:
    """The members that were sent, by their field names."""
    values = body.model_dump(exclude_unset=True)
    # An image without a text alternative says so when it is answered.
    images = [image.model_dump() for image in body.images or ()]
    return {**values, "images": images} if values.get("images") else values


STATUSES = ("active", "draft", "archived")


async def list_products(call: Call) -> web.Response:
    query = call.query
    window = query_params.window(query, sortable=True)
    filters: dict[str, Any] = {
        "search": query_params.search(query),
        "status": query_params.choice(query, "status", STATUSES),
        "external_id": query_params.text(query, "externalId"),
    }
    listing = call.read(lambda rows: products.page(rows, call.store, filters, window))
    return page_answer(call.request, listing, window)


async def get_product(call: Call) -> web.Response:
    found = call.read(lambda rows: products.view(rows, call.store, call.path("id")))
    return data_answer(found)


async def create_product(call: Call) -> web.Response:
    values = values_of(call.body)

    def create(tx: Tx) -> Answer:
        made = products.create(tx, call.store, call.caller.source, values)
        return Answer(made, 201, location=f"/api/v1/products/{made['id']}")

    return await call.mutate(create)


async def update_product(call: Call) -> web.Response:
    values = values_of(call.body)
    store, source = call.store, call.caller.source
    return await call.mutate(
        lambda tx: Answer(products.update(tx, store, source, call.path("id"), values))
    )


async def delete_product(call: Call) -> web.Response:
    store, source = call.store, call.caller.source
    return await call.mutate(
        lambda tx: Answer(products.delete(tx, store, source, call.path("id")))
    )


PATH = "/api/v1/products"
READ, WRITE = "products:read", "products:write"
ENDPOINTS = (
    Endpoint("GET", PATH, list_products, READ),
    Endpoint("POST", PATH, create_product, WRITE, body=NewProduct),
    Endpoint("GET", PATH + "/{id}", get_product, READ),
    Endpoint("PUT", PATH + "/{id}", update_product, WRITE, body=ChangedProduct),
    Endpoint("DELETE", PATH + "/{id}", delete_product, WRITE),
)
