"""Shapes of stock, customers, webhook subscriptions and their deliveries."""

from backhaul_reference.documents import Document
from backhaul_reference.openapi.order_answers import ADDRESS
from backhaul_reference.openapi.shapes import (
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
)
from backhaul_reference.state.inventory import REASONS

REASON = one_of(*REASONS)
SOURCE = object_of(
    type=one_of("API_KEY", "STOREFRONT", "DASHBOARD", "SYSTEM"), id=nullable(TEXT)
)
MOVED = object_of(
    variantId=TEXT,
    sku=nullable(TEXT),
    previousStock=NUMBER,
    adjustment=NUMBER,
    stock=NUMBER,
)
LEVEL = object_of(
    productId=TEXT,
    variantId=TEXT,
    sku=nullable(TEXT),
    productTitle=TEXT,
    variantTitle=nullable(TEXT),
    stock=NUMBER,
    trackInventory=FLAG,
    inventoryPolicy=one_of("DENY", "CONTINUE"),
    updatedAt=INSTANT,
)
HISTORY = object_of(
    id=TEXT,
    adjustmentId=TEXT,
    productId=nullable(TEXT),
    variantId=nullable(TEXT),
    sku=nullable(TEXT),
    adjustment=NUMBER,
    stockBefore=NUMBER,
    stockAfter=NUMBER,
    reason=REASON,
    note=nullable(TEXT),
    source=SOURCE,
    orderId=nullable(TEXT),
    createdAt=INSTANT,
)
CUSTOMER = object_of(
    id=TEXT,
    email=nullable(TEXT),
    phone=nullable(TEXT),
    firstName=nullable(TEXT),
    lastName=nullable(TEXT),
    name=TEXT,
    tags=WORDS,
    note=nullable(TEXT),
    acceptsMarketing=FLAG,
    addresses=list_of(extended(ADDRESS, id=TEXT, isDefault=FLAG)),
    ordersCount=COUNT,
    totalSpent=MONEY,
    externalId=nullable(TEXT),
    createdAt=INSTANT,
    updatedAt=INSTANT,
    version=NUMBER,
)
WEBHOOK = object_of(
    id=TEXT,
    address=TEXT,
    topics=WORDS,
    description=nullable(TEXT),
    status=one_of("ACTIVE", "PAUSED", "DISABLED"),
    disabledReason=nullable(TEXT),
    consecutiveFailures=COUNT,
    lastSuccessAt=nullable(INSTANT),
    lastFailureAt=nullable(INSTANT),
    createdAt=INSTANT,
    updatedAt=INSTANT,
)
ATTEMPT = object_of(
    number=COUNT,
    at=INSTANT,
    statusCode=nullable(NUMBER),
    error=nullable(TEXT),
    durationMs=nullable(COUNT),
)
META = object_of(page=COUNT, limit=COUNT, total=COUNT, totalPages=COUNT, hasMore=FLAG)

SCHEMAS: Document = {
    "Meta": META,
    "Deleted": object_of(id=TEXT, deleted=YES),
    "Level": LEVEL,
    "HistoryEntry": HISTORY,
    "Adjustment": object_of(
        adjustmentId=TEXT,
        productId=TEXT,
        reason=REASON,
        levels=list_of(MOVED),
        createdAt=INSTANT,
    ),
    "Customer": CUSTOMER,
    "Webhook": WEBHOOK,
    "WebhookWithSecret": extended(WEBHOOK, secret=TEXT),
    "Delivery": object_of(
        id=TEXT,
        eventId=TEXT,
        topic=TEXT,
        status=one_of("PENDING", "DELIVERED", "FAILED", "HELD"),
        attempts=list_of(ATTEMPT),
        nextAttemptAt=nullable(INSTANT),
        createdAt=INSTANT,
    ),
    "Replay": object_of(queued=COUNT, since=INSTANT, topics=WORDS),
    "Health": object_of(status=one_of("ok")),
}
