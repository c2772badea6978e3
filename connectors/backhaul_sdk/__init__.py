"""What a connector needs to join a back-office system to Backhaul."""

from backhaul_sdk.contract import (
    Batch,
    CheckFailed,
    Connector,
    Emit,
    HttpRequest,
    HttpResponse,
    Receipt,
    Rejection,
    Route,
)
from backhaul_sdk.manifest import Capability, Spec
from backhaul_sdk.records import (
    Bad,
    Cancellation,
    Fulfillment,
    Line,
    Record,
    StockAdjustment,
)

__all__ = [
    "Bad",
    "Batch",
    "Cancellation",
    "Capability",
    "CheckFailed",
    "Connector",
    "Emit",
    "Fulfillment",
    "HttpRequest",
    "HttpResponse",
    "Line",
    "Receipt",
    "Record",
    "Rejection",
    "Route",
    "Spec",
    "StockAdjustment",
]
