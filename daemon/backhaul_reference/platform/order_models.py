"""The JSON of orders, quotes and order events, as types."""

from typing import Literal, TypedDict

from backhaul_reference.platform.models import (
    Address,
    Count,
    FinancialStatus,
    FulfillmentStatus,
    Instant,
    Money,
    PaymentMethod,
    Status,
    Yes,
)


class Statuses(TypedDict):
    status: Status
    financialStatus: FinancialStatus
    fulfillmentStatus: FulfillmentStatus


class Totals(TypedDict):
    subtotal: Money
    discount: Money
    shipping: Money
    paymentFee: Money
    tax: Money
    total: Money


class TrackedItem(TypedDict):
    title: str
    variantTitle: str | None
    imageUrl: str | None
    quantity: Count
    unitPrice: Money
    discount: Money
    total: Money


class Item(TrackedItem):
    id: str
    productId: str | None
    variantId: str | None
    sku: str | None
    options: dict[str, str]
    fulfilledQuantity: Count
    restockedQuantity: Count


class TrackedShipment(TypedDict):
    trackingCompany: str | None
    trackingNumber: str | None
    trackingUrl: str | None
    shippedAt: Instant


class ShippedItem(TypedDict):
    lineItemId: str
    quantity: Count


class Shipment(TrackedShipment):
    id: str
    items: list[ShippedItem]


class TrackedReport(TypedDict):
    transactionId: str
    reportedAt: Instant


class Report(TrackedReport):
    payerName: str | None
    duplicateOf: str | None


class Payment(TypedDict):
    method: PaymentMethod | None
    paidAt: Instant | None
    amountDue: Money
    report: Report | None


class TrackedPayment(TypedDict):
    method: Literal["CUSTOM_QR"]
    qr: str
    amountDue: Money
    currency: str
    instructions: str | None
    report: TrackedReport | None


class Confirmation(TypedDict):
    required: bool
    confirmedAt: Instant | None


class OrderCustomer(TypedDict):
    id: str | None
    name: str
    email: str | None
    phone: str | None


class Cancellation(TypedDict):
    reason: str
    note: str | None
    restocked: bool
    refunded: bool
    skippedItems: list[str]
    cancelledAt: Instant


class Order(Statuses):
    id: str
    number: Count
    name: str
    externalId: str | None
    source: Literal["STOREFRONT", "API", "DASHBOARD"]
    confirmation: Confirmation
    currency: str
    paymentMethod: PaymentMethod | None
    customer: OrderCustomer
    items: list[Item]
    totals: Totals
    discountCode: str | None
    shippingAddress: Address | None
    payment: Payment
    shipments: list[Shipment]
    cancellation: Cancellation | None
    note: str | None
    tags: list[str]
    placedAt: Instant
    createdAt: Instant
    updatedAt: Instant
    version: int


class TrackedOrder(Statuses):
    number: Count
    name: str
    awaitingConfirmation: bool
    placedAt: Instant
    cancelledAt: Instant | None
    currency: str
    items: list[TrackedItem]
    totals: Totals
    shipments: list[TrackedShipment]
    payment: TrackedPayment | None


class PlacedOrder(TrackedOrder):
    id: str
    trackingToken: str


class PaymentReport(TypedDict):
    received: Yes
    status: Literal["AWAITING_CONFIRMATION"]
    transactionId: str
    reportedAt: Instant


class Quote(TypedDict):
    total: Money
    currency: str


class NoQuote(TypedDict):
    unavailable: Yes


class Discount(TypedDict):
    code: str
    type: Literal["PERCENTAGE", "FIXED_AMOUNT", "FREE_SHIPPING"]
    value: str


class CheckedDiscount(TypedDict):
    valid: Yes
    discount: Discount
    amount: Money


TextChange = TypedDict("TextChange", {"from": str, "to": str})
ConfirmationChange = TypedDict(
    "ConfirmationChange", {"from": Confirmation, "to": Confirmation}
)


class OrderChanges(TypedDict, total=False):
    status: TextChange
    financialStatus: TextChange
    fulfillmentStatus: TextChange
    confirmation: ConfirmationChange


class UpdatedOrder(Order):
    changes: OrderChanges


class FulfilledOrder(Order):
    shipment: Shipment


class CancelledOrder(Order):
    trigger: Literal["CANCEL", "REFUND"]
