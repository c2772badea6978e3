"""Schemas of orders, for merchants and buyers, and of quotes."""

from backhaul_reference.openapi.schema_helpers import (
    BY_NAME,
    COUNT,
    FLAG,
    INSTANT,
    MONEY,
    NUMBER,
    TEXT,
    WORDS,
    YES,
    extended,
    list_of,
    nullable,
    object_of,
    one_of,
    ref,
)
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state.order_lifecycle import (
    FINANCIAL_STATUSES,
    FULFILLMENT_STATUSES,
    STATUSES,
)

STANDING: Document = {
    "status": one_of(*STATUSES),
    "financialStatus": one_of(*FINANCIAL_STATUSES),
    "fulfillmentStatus": one_of(*FULFILLMENT_STATUSES),
}
METHODS = one_of("COD", "CUSTOM_QR", "OTHER")
TOTALS = object_of(
    subtotal=MONEY,
    discount=MONEY,
    shipping=MONEY,
    paymentFee=MONEY,
    tax=MONEY,
    total=MONEY,
)
LINE = object_of(
    title=TEXT,
    variantTitle=nullable(TEXT),
    imageUrl=nullable(TEXT),
    quantity=COUNT,
    unitPrice=MONEY,
    discount=MONEY,
    total=MONEY,
)
V1_LINE = extended(
    LINE,
    id=TEXT,
    productId=nullable(TEXT),
    variantId=nullable(TEXT),
    sku=nullable(TEXT),
    options=BY_NAME,
    fulfilledQuantity=COUNT,
    restockedQuantity=COUNT,
)
PARCEL = object_of(
    trackingCompany=nullable(TEXT),
    trackingNumber=nullable(TEXT),
    trackingUrl=nullable(TEXT),
    shippedAt=INSTANT,
)
SHIPMENT = extended(
    PARCEL, id=TEXT, items=list_of(object_of(lineItemId=TEXT, quantity=COUNT))
)
REPORT = object_of(transactionId=TEXT, reportedAt=INSTANT)
V1_REPORT = extended(REPORT, payerName=nullable(TEXT), duplicateOf=nullable(TEXT))
ADDRESS_MEMBERS = (
    *("name", "phone", "address1", "address2"),
    *("city", "province", "country", "zip"),
)
ADDRESS = object_of(**dict.fromkeys(ADDRESS_MEMBERS, nullable(TEXT)))
CANCELLATION = object_of(
    reason=TEXT,
    note=nullable(TEXT),
    restocked=FLAG,
    refunded=FLAG,
    skippedItems=WORDS,
    cancelledAt=INSTANT,
)
ORDER = object_of(
    id=TEXT,
    number=COUNT,
    name=TEXT,
    externalId=nullable(TEXT),
    source=one_of("STOREFRONT", "API", "DASHBOARD"),
    **STANDING,
    confirmation=object_of(required=FLAG, confirmedAt=nullable(INSTANT)),
    currency=TEXT,
    paymentMethod=nullable(METHODS),
    customer=object_of(
        id=nullable(TEXT), name=TEXT, email=nullable(TEXT), phone=nullable(TEXT)
    ),
    items=list_of(V1_LINE),
    totals=TOTALS,
    discountCode=nullable(TEXT),
    shippingAddress=nullable(ADDRESS),
    payment=object_of(
        method=nullable(METHODS),
        paidAt=nullable(INSTANT),
        amountDue=MONEY,
        report=nullable(V1_REPORT),
    ),
    shipments=list_of(ref("Shipment")),
    cancellation=nullable(CANCELLATION),
    note=nullable(TEXT),
    tags=WORDS,
    placedAt=INSTANT,
    createdAt=INSTANT,
    updatedAt=INSTANT,
    version=NUMBER,
)
TRACKED = object_of(
    number=COUNT,
    name=TEXT,
    **STANDING,
    awaitingConfirmation=FLAG,
    placedAt=INSTANT,
    cancelledAt=nullable(INSTANT),
    currency=TEXT,
    items=list_of(LINE),
    totals=TOTALS,
    shipments=list_of(PARCEL),
    payment=nullable(
        object_of(
            method=one_of("CUSTOM_QR"),
            qr=TEXT,
            amountDue=MONEY,
            currency=TEXT,
            instructions=nullable(TEXT),
            report=nullable(REPORT),
        )
    ),
)

SCHEMAS: Document = {
    "Order": ORDER,
    "Shipment": SHIPMENT,
    "TrackedOrder": TRACKED,
    "PlacedOrder": extended(TRACKED, id=TEXT, trackingToken=TEXT),
    "PaymentReport": object_of(
        received=YES,
        status=one_of("AWAITING_CONFIRMATION"),
        transactionId=TEXT,
        reportedAt=INSTANT,
    ),
    "ShippingQuote": {
        "oneOf": [
            object_of(total=MONEY, currency=TEXT),
            object_of(unavailable=YES),
        ]
    },
    "CheckedDiscount": object_of(
        valid=YES,
        discount=object_of(
            code=TEXT,
            type=one_of("PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING"),
            value=TEXT,
        ),
        amount=MONEY,
    ),
}
