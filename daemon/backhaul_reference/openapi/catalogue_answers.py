"""Shapes of stores, products, collections and menus."""

from backhaul_reference.documents import Document
from backhaul_reference.openapi.shapes import (
    BY_NAME,
    COUNT,
    FLAG,
    INSTANT,
    MONEY,
    NUMBER,
    TEXT,
    WORDS,
    extended,
    list_of,
    nullable,
    object_of,
    one_of,
    ref,
)

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

SCHEMAS: Document = {
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
