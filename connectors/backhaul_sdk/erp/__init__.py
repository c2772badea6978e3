"""What connectors for ERPs with a JSON interface share.

A connector reads pages of shipments and stock (`read_batches`), makes records of rows
(`fulfillment`, `stock_count`), and writes orders through an `OrderBook`
(`OrderDelivery`). `ErpServer` sends its requests; `backhaul_sdk.erp.failures` says what
a failed one means.
"""

from backhaul_sdk.erp.failures import (
    AccessRefused,
    NotNow,
    RequestRefused,
    ServerFailed,
    may_have_arrived,
)
from backhaul_sdk.erp.order_lines import (
    OrderLine,
    delivery_text,
    order_lines,
    order_name,
    require_known,
    shipping_price,
)
from backhaul_sdk.erp.orders import ORDER_TOPICS, OrderBook, OrderDelivery
from backhaul_sdk.erp.paging import ErpCursor, RecordPage, all_rows, read_batches
from backhaul_sdk.erp.rows import Goods, Parcel, fulfillment, stock_count, total_units
from backhaul_sdk.erp.server import ErpServer, compact, error_document
from backhaul_sdk.erp.settings import ErpSettings, shared_by, shared_hint

__all__ = [
    "ORDER_TOPICS",
    "AccessRefused",
    "ErpCursor",
    "ErpServer",
    "ErpSettings",
    "Goods",
    "NotNow",
    "OrderBook",
    "OrderDelivery",
    "OrderLine",
    "Parcel",
    "RecordPage",
    "RequestRefused",
    "ServerFailed",
    "all_rows",
    "compact",
    "delivery_text",
    "error_document",
    "fulfillment",
    "may_have_arrived",
    "order_lines",
    "order_name",
    "read_batches",
    "require_known",
    "shared_by",
    "shared_hint",
    "shipping_price",
    "stock_count",
    "total_units",
]
