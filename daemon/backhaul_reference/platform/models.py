"""The JSON of responses and webhooks, as types; the OpenAPI document is made of them.

The functions that make the JSON return these types, so mypy checks their members.
"""

from typing import Annotated, Any, Literal, TypedDict

from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Money = Annotated[
    str,
    Meta(
        pattern=r"^-?[0-9]+(\.[0-9]{1,3})?$",
        description="A decimal with the fraction digits of the store's currency.",
    ),
]
Instant = Annotated[
    str,
    Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$",
        extra_json_schema={"format": "date-time"},
    ),
]
Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]

Status = Literal["PENDING", "CONFIRMED", "COMPLETED", "CANCELLED"]
FinancialStatus = Literal["PENDING", "PAID", "REFUNDED", "VOIDED", "PARTIALLY_REFUNDED"]
FulfillmentStatus = Literal[
    "UNFULFILLED", "PARTIALLY_FULFILLED", "FULFILLED", "RESTOCKED"
]
PaymentMethod = Literal["COD", "CUSTOM_QR", "OTHER"]
ClientReason = Literal[
    "MANUAL_ADJUSTMENT",
    "CORRECTION",
    "STOCK_COUNT",
    "RECEIVED",
    "RESTOCK",
    "RETURN",
    "DAMAGED",
    "SHRINKAGE",
    "PROMOTION",
    "OTHER",
]
Reason = Literal[ClientReason, "ORDER_PLACED", "ORDER_CANCELLED", "INITIAL_STOCK"]
SourceType = Literal["API_KEY", "STOREFRONT", "DASHBOARD", "SYSTEM"]
AccountMode = Literal["OPTIONAL", "REQUIRED", "GUEST_ONLY"]


class Health(TypedDict):
    status: Literal["ok"]


class PageMeta(TypedDict):
    page: Count
    limit: Count
    total: Count
    totalPages: Count
    hasMore: bool


class Deleted(TypedDict):
    id: str
    deleted: Yes


class PaymentMethodSettings(TypedDict):
    enabled: bool
    fee: Money
    instructions: str | None


class PaymentSettings(TypedDict):
    cod: PaymentMethodSettings
    customQr: PaymentMethodSettings


class CustomerAccounts(TypedDict):
    mode: AccountMode


class Store(TypedDict):
    id: str
    subdomain: str
    storeName: str
    currency: str
    locale: str
    logo: str | None
    seoTitle: str | None
    seoDescription: str | None
    paymentSettings: PaymentSettings
    customerAccounts: CustomerAccounts


class Vertical(TypedDict):
    """The store's trade; each type has settings of its own."""

    type: str
    settings: dict[str, Any]


class StoreDetails(TypedDict):
    id: str
    name: str
    storeName: str
    subdomain: str
    currency: str
    currencyExponent: Count
    timezone: str
    locale: str
    country: str
    customerAccounts: CustomerAccounts
    vertical: Vertical
    apiVersion: str
    features: list[str]
    createdAt: Instant


class Variant(TypedDict):
    id: str
    title: str | None
    sku: str | None
    price: Money
    compareAtPrice: Money | None
    options: dict[str, str]
    imageUrl: str | None
    weightGrams: Count | None
    available: bool
    position: int


class CatalogueVariant(Variant):
    barcode: str | None
    stock: int
    trackInventory: bool
    inventoryPolicy: Literal["DENY", "CONTINUE"]
    createdAt: Instant
    updatedAt: Instant


class Image(TypedDict):
    url: str
    alt: str | None


class Option(TypedDict):
    name: str
    values: list[str]


class PriceRange(TypedDict):
    min: Money
    max: Money


class ProductFacts(TypedDict):
    id: str
    handle: str
    title: str
    description: str | None
    vendor: str | None
    productType: str | None
    tags: list[str]
    images: list[Image]
    options: list[Option]
    priceRange: PriceRange
    available: bool
    seoTitle: str | None
    seoDescription: str | None
    createdAt: Instant
    updatedAt: Instant


class Product(ProductFacts):
    variants: list[Variant]


class CollectionName(TypedDict):
    id: str
    handle: str
    title: str


class ProductWithCollections(Product):
    collections: list[CollectionName]


class CatalogueProduct(ProductFacts):
    variants: list[CatalogueVariant]
    status: Literal["active", "draft", "archived"]
    publishedAt: Instant | None
    externalId: str | None
    collectionIds: list[str]
    version: int


class DeletedVariant(TypedDict):
    id: str
    sku: str | None


class DeletedProduct(TypedDict):
    id: str
    handle: str
    title: str
    externalId: str | None
    variants: list[DeletedVariant]
    deletedAt: Instant


class Collection(TypedDict):
    id: str
    handle: str
    title: str
    description: str | None
    imageUrl: str | None
    type: Literal["MANUAL", "AUTOMATIC"]
    productCount: Count
    createdAt: Instant
    updatedAt: Instant


class CollectionWithProducts(TypedDict):
    collection: Collection
    products: list[Product]


class MenuItem(TypedDict):
    label: str
    url: str
    children: "list[MenuItem]"


class Menu(TypedDict):
    handle: str
    title: str
    items: list[MenuItem]


class Source(TypedDict):
    type: SourceType
    id: str | None


class Moved(TypedDict):
    variantId: str
    sku: str | None
    previousStock: int
    adjustment: int
    stock: int


class Level(TypedDict):
    productId: str
    variantId: str
    sku: str | None
    productTitle: str
    variantTitle: str | None
    stock: int
    trackInventory: bool
    inventoryPolicy: Literal["DENY", "CONTINUE"]
    updatedAt: Instant


class HistoryEntry(TypedDict):
    id: str
    adjustmentId: str
    productId: str | None
    variantId: str | None
    sku: str | None
    adjustment: int
    stockBefore: int
    stockAfter: int
    reason: Reason
    note: str | None
    source: Source
    orderId: str | None
    createdAt: Instant


class Adjustment(TypedDict):
    adjustmentId: str
    productId: str
    reason: Reason
    levels: list[Moved]
    createdAt: Instant


class LevelUpdate(TypedDict):
    adjustmentId: str
    productId: str
    reason: Reason
    orderId: str | None
    source: Source
    levels: list[Moved]
    updatedAt: Instant


class Address(TypedDict):
    name: str | None
    phone: str | None
    address1: str | None
    address2: str | None
    city: str | None
    province: str | None
    country: str | None
    zip: str | None


class CustomerAddress(Address):
    id: str
    isDefault: bool


class Customer(TypedDict):
    id: str
    email: str | None
    phone: str | None
    firstName: str | None
    lastName: str | None
    name: str
    tags: list[str]
    note: str | None
    acceptsMarketing: bool
    addresses: list[CustomerAddress]
    ordersCount: Count
    totalSpent: Money
    externalId: str | None
    createdAt: Instant
    updatedAt: Instant
    version: int


class Webhook(TypedDict):
    id: str
    address: str
    topics: list[str]
    description: str | None
    status: Literal["ACTIVE", "PAUSED", "DISABLED"]
    disabledReason: str | None
    consecutiveFailures: Count
    lastSuccessAt: Instant | None
    lastFailureAt: Instant | None
    createdAt: Instant
    updatedAt: Instant


class WebhookWithSecret(Webhook):
    secret: str


class Attempt(TypedDict):
    number: Count
    at: Instant
    statusCode: int | None
    error: str | None
    durationMs: Count | None


class Delivery(TypedDict):
    id: str
    eventId: str
    topic: str
    status: Literal["PENDING", "DELIVERED", "FAILED", "HELD"]
    attempts: list[Attempt]
    nextAttemptAt: Instant | None
    createdAt: Instant


class Replay(TypedDict):
    queued: Count
    since: Instant
    topics: list[str]


class Flaw(TypedDict):
    pointer: str
    code: str
    detail: str


class Problem(TypedDict):
    """Every refusal; some codes add members of their own."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    requestId: str
    errors: list[Flaw]
