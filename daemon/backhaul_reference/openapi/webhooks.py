"""The webhooks section: topics, envelope and delivery headers."""

from backhaul_reference.openapi.order_schemas import ORDER
from backhaul_reference.openapi.resource_schemas import MOVED, REASON, SOURCE
from backhaul_reference.openapi.schema_helpers import (
    INSTANT,
    NUMBER,
    TEXT,
    extended,
    list_of,
    nullable,
    object_of,
    one_of,
    ref,
)
from backhaul_reference.platform.json_codec import Document
from backhaul_reference.platform.state.events import API_VERSION, TOPICS

CHANGED = object_of(**{"from": {}, "to": {}})
CHANGES: Document = {
    "type": "object",
    "properties": dict.fromkeys(
        ("status", "financialStatus", "fulfillmentStatus", "confirmation"), CHANGED
    ),
}
DELETED_PRODUCT = object_of(
    id=TEXT,
    handle=TEXT,
    title=TEXT,
    externalId=nullable(TEXT),
    variants=list_of(object_of(id=TEXT, sku=nullable(TEXT))),
    deletedAt=INSTANT,
)
LEVEL_UPDATE = object_of(
    adjustmentId=TEXT,
    productId=TEXT,
    reason=REASON,
    orderId=nullable(TEXT),
    source=SOURCE,
    levels=list_of(MOVED),
    updatedAt=INSTANT,
)
DATA: Document = {
    "orders/create": ref("Order"),
    "orders/updated": extended(ORDER, changes=CHANGES),
    "orders/fulfilled": extended(ORDER, shipment=ref("Shipment")),
    "orders/cancelled": extended(ORDER, trigger=one_of("CANCEL", "REFUND")),
    "products/create": ref("CatalogueProduct"),
    "products/update": ref("CatalogueProduct"),
    "products/delete": DELETED_PRODUCT,
    "inventory/level_update": LEVEL_UPDATE,
    "customers/create": ref("Customer"),
}
HEADERS = {
    "X-Service-Hmac-Sha256": "Base64 of the HMAC-SHA256 of the body, by the secret",
    "X-Service-Topic": "The topic",
    "X-Service-Event-Id": "The same for every subscription and every retry",
    "X-Service-Delivery-Id": "The same for every retry of this delivery",
    "X-Service-Attempt": "1 for the first attempt",
    "X-Service-Subscription-Id": "The subscription",
    "X-Service-Store": "The store's subdomain",
    "X-Service-Triggered-At": "When the event happened",
    "X-Service-Api-Version": "The version of the resource in the envelope",
    "webhook-id": "As X-Service-Event-Id",
    "webhook-timestamp": "Seconds since 1970, of this attempt",
    "webhook-signature": "Signatures after Standard Webhooks, divided by spaces",
}


def webhooks(examples: Document) -> Document:
    return {topic: {"post": _delivery(topic, examples)} for topic in TOPICS}


def _delivery(topic: str, examples: Document) -> Document:
    content: Document = {"schema": envelope(topic)}
    if topic in examples:
        content["example"] = examples[topic]
    return {
        "operationId": f"webhook.{topic}",
        "summary": f"Told to the subscribers of {topic}",
        "parameters": [
            {
                "name": name,
                "in": "header",
                "required": True,
                "schema": TEXT,
                "description": meaning,
            }
            for name, meaning in HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {"application/json": content}},
        "responses": {
            "2XX": {"description": "Received, if within 15 seconds"},
            "410": {"description": "Never call again: the subscription is disabled"},
            "default": {"description": "Not received; sent again later"},
        },
    }


def envelope(topic: str) -> Document:
    return object_of(
        id=TEXT,
        topic=one_of(topic),
        apiVersion=one_of(API_VERSION),
        storeId=TEXT,
        createdAt=INSTANT,
        sequence=NUMBER,
        data=DATA[topic],
    )
