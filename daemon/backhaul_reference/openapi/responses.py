"""Success and error responses of each operation, and their headers."""

from collections.abc import Sequence
from dataclasses import dataclass

from backhaul_reference.openapi.schemas import (
    TEXT,
    enveloped,
    list_of,
    paged,
    ref,
)
from backhaul_reference.platform.http.endpoint import Endpoint
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.problems import TITLES

OUT_OF_STOCK = "OUT_OF_STOCK"
TOTAL_LIMIT = "TOTAL_LIMIT_EXCEEDED"
RECORDING = (
    *("DUPLICATE_EXTERNAL_ID", OUT_OF_STOCK),
    *("PRODUCT_UNAVAILABLE", TOTAL_LIMIT),
)
TAKEN = ("HANDLE_TAKEN", "SKU_TAKEN", "DUPLICATE_EXTERNAL_ID")
STOCK = ("INSUFFICIENT_STOCK", "STOCK_CHANGED", "STOCK_LIMIT_EXCEEDED")
DISCOUNTS = tuple(
    f"DISCOUNT_{reason}"
    for reason in ("NOT_FOUND", "NOT_STARTED", "EXPIRED", "USED_UP", "MINIMUM_NOT_MET")
)
CHECKOUT = (
    *(OUT_OF_STOCK, "PRODUCT_UNAVAILABLE"),
    *("PAYMENT_METHOD_UNAVAILABLE", "SHIPPING_UNAVAILABLE", TOTAL_LIMIT),
)
REPORTING = ("PAYMENT_NOT_EXPECTED", "ORDER_ALREADY_PAID", "ORDER_CANCELLED")
FULFILLING = (
    *("ORDER_AWAITING_CONFIRMATION", "ORDER_ALREADY_FULFILLED"),
    "QUANTITY_NOT_FULFILLABLE",
)
MISSING_LEVELS = ("PRODUCT_NOT_FOUND", "VARIANT_NOT_FOUND")


@dataclass(frozen=True, slots=True)
class Success:
    """One operation: a sentence, its answer, and the codes that are its own."""

    summary: str
    schema: Document
    status: int = 200
    bad: Sequence[str] = ()
    missing: Sequence[str] = ()
    conflicts: Sequence[str] = ()
    invalid: Sequence[str] = ()
    login: bool = False

    @property
    def located(self) -> bool:
        return self.status == 201 and "PlacedOrder" not in str(self.schema)


def _one(name: str) -> Document:
    return enveloped(ref(name))


def _many(name: str) -> Document:
    return paged(ref(name))


DELETED = _one("Deleted")
PRODUCT, ORDER, CUSTOMER, WEBHOOK, DELIVERY, STORE = (
    (f"{kind}_NOT_FOUND",)
    for kind in ("PRODUCT", "ORDER", "CUSTOMER", "WEBHOOK", "DELIVERY", "STORE")
)
COLLECTION, MENU = ("COLLECTION_NOT_FOUND",), ("MENU_NOT_FOUND",)
DISABLED = ("WEBHOOK_DISABLED",)

STOREFRONT = {
    "get_store": Success("The store", _one("Store")),
    "list_products": Success("Active products, newest first", _many("Product")),
    "get_product": Success(
        "A product by handle or id", _one("ProductWithCollections"), missing=PRODUCT
    ),
    "list_collections": Success("Published collections", _many("Collection")),
    "get_collection": Success(
        "A collection with its products",
        _one("CollectionWithProducts"),
        missing=COLLECTION,
    ),
    "list_menus": Success("Every menu, by handle", _one("Menus")),
    "get_menu": Success("A menu", _one("Menu"), missing=MENU),
    "quote": Success("What delivery would cost", ref("ShippingQuote"), missing=STORE),
    "check_discount": Success(
        "What a code would take off", ref("CheckedDiscount"), bad=DISCOUNTS
    ),
    "place_order": Success(
        "Place an order",
        _one("PlacedOrder"),
        201,
        bad=DISCOUNTS,
        conflicts=CHECKOUT,
        invalid=("VARIANT_REQUIRED",),
        login=True,
    ),
    "track_order": Success("Follow an order", _one("TrackedOrder"), missing=ORDER),
    "report_payment": Success(
        "Say that an order was paid",
        _one("PaymentReport"),
        missing=ORDER,
        conflicts=REPORTING,
    ),
}
V1 = {
    "list_products": Success("Products, newest first", _many("CatalogueProduct")),
    "get_product": Success("A product", _one("CatalogueProduct"), missing=PRODUCT),
    "create_product": Success(
        "Create a product", _one("CatalogueProduct"), 201, conflicts=TAKEN
    ),
    "update_product": Success(
        "Change the members that are sent",
        _one("CatalogueProduct"),
        missing=PRODUCT,
        conflicts=(*TAKEN, "VARIANT_REQUIRED"),
        invalid=("READ_ONLY",),
    ),
    "delete_product": Success("Delete a product", DELETED, missing=PRODUCT),
    "list_orders": Success("Orders, newest first", _many("Order")),
    "get_order": Success("An order", _one("Order"), missing=ORDER),
    "create_order": Success(
        "Record an order as it was made",
        _one("Order"),
        201,
        missing=CUSTOMER,
        conflicts=RECORDING,
        invalid=("VARIANT_REQUIRED",),
    ),
    "fulfill_order": Success(
        "Send all that is left, or some", _one("Order"), 200, (), ORDER, FULFILLING
    ),
    "cancel_order": Success(
        "Cancel an order",
        _one("Order"),
        missing=ORDER,
        conflicts=("ORDER_ALREADY_CANCELLED",),
    ),
    "list_levels": Success("Stock by variant", _many("Level")),
    "list_history": Success("Every movement of stock", _many("HistoryEntry")),
    "get_levels": Success(
        "Stock of a product's variants",
        enveloped(list_of(ref("Level"))),
        missing=PRODUCT,
    ),
    "adjust": Success(
        "Move stock up or down", _one("Adjustment"), 200, (), MISSING_LEVELS, STOCK
    ),
    "set_stock": Success(
        "Set stock to a number", _one("Adjustment"), 200, (), MISSING_LEVELS, STOCK
    ),
    "list_customers": Success("Customers, newest first", _many("Customer")),
    "get_customer": Success("A customer", _one("Customer"), missing=CUSTOMER),
    "create_customer": Success(
        "Create a customer",
        _one("Customer"),
        201,
        conflicts=("EMAIL_TAKEN", "DUPLICATE_EXTERNAL_ID"),
    ),
    "update_customer": Success(
        "Change the members that are sent",
        _one("Customer"),
        missing=CUSTOMER,
        conflicts=("EMAIL_TAKEN", "DUPLICATE_EXTERNAL_ID"),
    ),
    "delete_customer": Success(
        "Delete a customer who never ordered",
        DELETED,
        missing=CUSTOMER,
        conflicts=("CUSTOMER_HAS_ORDERS",),
    ),
    "get_store": Success("The key's store", _one("StoreDetails")),
    "list_webhooks": Success("Subscriptions", _many("Webhook")),
    "get_webhook": Success("A subscription", _one("Webhook"), missing=WEBHOOK),
    "create_webhook": Success("Subscribe", _one("WebhookWithSecret"), 201),
    "update_webhook": Success(
        "Change the members that are sent", _one("Webhook"), 200, (), WEBHOOK, DISABLED
    ),
    "delete_webhook": Success("End a subscription", DELETED, missing=WEBHOOK),
    "rotate_secret": Success(
        "Make a new secret", _one("WebhookWithSecret"), 200, (), WEBHOOK, DISABLED
    ),
    "send_test": Success("Send a test", _one("Delivery"), 202, (), WEBHOOK, DISABLED),
    "replay": Success(
        "Send again what happened since", _one("Replay"), 202, (), WEBHOOK, DISABLED
    ),
    "list_deliveries": Success(
        "Deliveries, newest first", _many("Delivery"), missing=WEBHOOK
    ),
    "get_delivery": Success(
        "A delivery", _one("Delivery"), missing=(*WEBHOOK, *DELIVERY)
    ),
    "redeliver": Success(
        "Send a delivery again",
        _one("Delivery"),
        202,
        missing=(*WEBHOOK, *DELIVERY),
        conflicts=DISABLED,
    ),
}


Codes = dict[int, tuple[str, ...]]
V1_PREFIX = "/api/v1/"
UNKNOWN_KEY = ("API_KEY_MISSING", "API_KEY_INVALID")
NOT_OFFERED = ("METHOD_NOT_ALLOWED",)
"""Answered to other methods, which the path does not list; here to say how."""
NOT_ALLOWED = ("INSUFFICIENT_SCOPE", "STORE_INACTIVE")


def refusals(endpoint: Endpoint, success: Success, *, asks: bool) -> Document:
    return {
        str(status): refusal(status, *codes)
        for status, codes in codes_of(endpoint, success, asks=asks).items()
        if codes
    }


def codes_of(endpoint: Endpoint, success: Success, *, asks: bool) -> Codes:
    """Every code, by its status; `asks` says that there are query parameters."""
    keyed = endpoint.path.startswith(V1_PREFIX)
    writes, repeats = endpoint.method != "GET", endpoint.method == "POST"
    body = endpoint.body is not None
    store = () if endpoint.store_in_body else ("STORE_HEADER_REQUIRED",)
    store = ("AMBIGUOUS_CREDENTIALS",) if keyed else store
    return {
        400: (
            *store,
            *(("INVALID_JSON",) if body else ()),
            *(("INVALID_IDEMPOTENCY_KEY",) if repeats else ()),
            *success.bad,
        ),
        401: UNKNOWN_KEY if keyed else ("LOGIN_REQUIRED",) if success.login else (),
        403: NOT_ALLOWED if keyed else (),
        404: _missing(success, keyed=keyed),
        405: NOT_OFFERED,
        408: ("BODY_TIMEOUT",) if writes else (),
        409: tuple(success.conflicts),
        413: ("BODY_TOO_LARGE",) if writes else (),
        415: _media(writes=writes, body=body),
        422: (
            *(("VALIDATION_ERROR",) if body or asks else ()),
            *success.invalid,
            *(("IDEMPOTENCY_KEY_REUSED",) if repeats else ()),
        ),
        429: ("RATE_LIMITED",),
        500: ("INTERNAL_ERROR",),
        503: ("STORAGE_UNAVAILABLE",) if writes else (),
    }


def _missing(success: Success, *, keyed: bool) -> tuple[str, ...]:
    store = () if keyed else ("STORE_NOT_FOUND",)
    return tuple(dict.fromkeys((*store, *success.missing)))


def _media(*, writes: bool, body: bool) -> tuple[str, ...]:
    if not writes:
        return ()
    media = ("UNSUPPORTED_MEDIA_TYPE",) if body else ()
    return (*media, "UNSUPPORTED_ENCODING")


def refusal(status: int, *codes: str) -> Document:
    """Describe the problems of one status.

    Every refusal has the same shape, so that a generated client has one class for
    all. The codes that can occur are listed in the description and in `x-codes`.
    """
    title = TITLES.get(status, "The request failed")
    problem = {"schema": ref("Problem")}
    return {
        "description": f"{title}: {', '.join(codes)}",
        "x-codes": [*codes],
        "headers": headers(status),
        "content": {"application/problem+json": problem},
    }


RATE: Document = {
    "RateLimit-Policy": {
        "description": "The limit: so many requests in a window of seconds",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";q=[0-9]+;w=[0-9]+$'},
    },
    "RateLimit": {
        "description": "What is left, and the seconds until all of it is back",
        "schema": {"type": "string", "pattern": r'^"[a-z-]+";r=[0-9]+;t=[0-9]+$'},
    },
}
REQUEST_ID: Document = {
    "X-Request-Id": {"required": True, "schema": {"type": "string"}},
}
RETRY: Document = {
    "Retry-After": {"required": True, "schema": {"type": "integer", "minimum": 1}},
}
CHALLENGE: Document = {"WWW-Authenticate": {"required": True, "schema": TEXT}}
LOCATION: Document = {
    "Location": {
        "description": "The address of what was made",
        "required": True,
        "schema": TEXT,
    },
}
LINK: Document = {
    "Link": {
        "description": "RFC 8288: first, prev, next and last page",
        "required": True,
        "schema": TEXT,
    },
}
REPLAYED: Document = {
    "Idempotency-Replayed": {
        "description": "The answer was given before",
        "schema": {"type": "string", "enum": ["true"]},
    },
}
ALLOW: Document = {
    "Allow": {
        "description": "The methods that are offered, divided by commas",
        "required": True,
        "schema": TEXT,
    },
}
BY_STATUS = {401: CHALLENGE, 405: ALLOW, 429: RETRY}


def headers(status: int) -> Document:
    """The headers of a refusal."""
    return {**REQUEST_ID, **RATE, **BY_STATUS.get(status, {})}
