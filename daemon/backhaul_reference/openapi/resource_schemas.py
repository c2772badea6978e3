"""Schemas of stores, catalogue, stock, customers and webhooks."""

from backhaul_reference.openapi.order_schemas import ADDRESS
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
from backhaul_reference.platform.state.inventory import REASONS

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

BACKOFFICE_SCHEMAS: Document = {
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


ACCOUNTS = object_of(mode=one_of("OPTIONAL", "REQUIRED", "GUEST_ONLY"))
METHOD = object_of(enabled=FLAG, fee=MONEY, instructions=nullable(TEXT))
STORE = object_of(
    id=TEXT,
    subdomain=TEXT,
    storeName=TEXT,
    currency=TEXT,
    locale=TEXT,
    logo=nullable(TEXT),
    seoTitle=nullable(TEXT),
    seoDescription=nullable(TEXT),
    paymentSettings=object_of(cod=METHOD, customQr=METHOD),
    customerAccounts=ACCOUNTS,
)
V1_STORE = object_of(
    id=TEXT,
    name=TEXT,
    storeName=TEXT,
    subdomain=TEXT,
    currency=TEXT,
    currencyExponent=COUNT,
    timezone=TEXT,
    locale=TEXT,
    country=TEXT,
    customerAccounts=ACCOUNTS,
    vertical=object_of(type=TEXT, settings={"type": "object"}),
    apiVersion=TEXT,
    features=WORDS,
    createdAt=INSTANT,
)
VARIANT = object_of(
    id=TEXT,
    title=nullable(TEXT),
    sku=nullable(TEXT),
    price=MONEY,
    compareAtPrice=nullable(MONEY),
    options=BY_NAME,
    imageUrl=nullable(TEXT),
    weightGrams=nullable(COUNT),
    available=FLAG,
    position=NUMBER,
)
V1_VARIANT = extended(
    VARIANT,
    barcode=nullable(TEXT),
    stock=NUMBER,
    trackInventory=FLAG,
    inventoryPolicy=one_of("DENY", "CONTINUE"),
    createdAt=INSTANT,
    updatedAt=INSTANT,
)
PRODUCT = object_of(
    id=TEXT,
    handle=TEXT,
    title=TEXT,
    description=nullable(TEXT),
    vendor=nullable(TEXT),
    productType=nullable(TEXT),
    tags=WORDS,
    images=list_of(object_of(url=TEXT, alt=nullable(TEXT))),
    options=list_of(object_of(name=TEXT, values=WORDS)),
    priceRange=object_of(min=MONEY, max=MONEY),
    available=FLAG,
    seoTitle=nullable(TEXT),
    seoDescription=nullable(TEXT),
    variants=list_of(ref("Variant")),
    createdAt=INSTANT,
    updatedAt=INSTANT,
)
V1_PRODUCT = extended(
    PRODUCT | {"properties": PRODUCT["properties"] | {"variants": list_of(V1_VARIANT)}},
    status=one_of("active", "draft", "archived"),
    publishedAt=nullable(INSTANT),
    externalId=nullable(TEXT),
    collectionIds=WORDS,
    version=NUMBER,
)
COLLECTION = object_of(
    id=TEXT,
    handle=TEXT,
    title=TEXT,
    description=nullable(TEXT),
    imageUrl=nullable(TEXT),
    type=one_of("MANUAL", "AUTOMATIC"),
    productCount=COUNT,
    createdAt=INSTANT,
    updatedAt=INSTANT,
)
MENU_ITEM = object_of(label=TEXT, url=TEXT, children=list_of(ref("MenuItem")))
MENU = object_of(handle=TEXT, title=TEXT, items=list_of(ref("MenuItem")))

CATALOGUE_SCHEMAS: Document = {
    "Store": STORE,
    "StoreDetails": V1_STORE,
    "Variant": VARIANT,
    "Product": PRODUCT,
    "ProductWithCollections": extended(
        PRODUCT,
        collections=list_of(object_of(id=TEXT, handle=TEXT, title=TEXT)),
    ),
    "CatalogueProduct": V1_PRODUCT,
    "Collection": COLLECTION,
    "CollectionWithProducts": object_of(
        collection=ref("Collection"), products=list_of(ref("Product"))
    ),
    "MenuItem": MENU_ITEM,
    "Menu": MENU,
    "Menus": {"type": "object", "additionalProperties": ref("Menu")},
}
