"""Test benches: the system on the other side of a connector, and sample changes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import Enum, auto
from typing import TYPE_CHECKING, Any

from backhaul_sdk.contract import Change

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from backhaul_sdk.contract import Connector
    from backhaul_sdk.testing.memory_host import MemoryHost


AT = "2026-01-01T12:00:00.000Z"


def sample_change(number: int, topic: str = "order.placed") -> Change:
    """Return change `number` of a topic; equal numbers are the same object."""
    document = _DOCUMENTS[topic](number)
    return Change(
        id=f"sample:{topic}:{number}",
        store="main",
        topic=topic,
        object_id=document["id"],
        occurred_at=AT,
        document=document,
    )


def _order(number: int) -> dict[str, Any]:
    return {
        "id": f"ord_{number:08}",
        "number": 1001 + number,
        "name": f"#{1001 + number}",
        "externalId": None,
        "status": "CONFIRMED",
        "financialStatus": "PAID",
        "fulfillmentStatus": "UNFULFILLED",
        "currency": "EUR",
        "email": "kim@example.com",
        "customer": _customer(number),
        "items": [
            {
                "id": f"li_{number:08}",
                "productId": f"prod_{number:08}",
                "variantId": f"var_{number:08}",
                "sku": "LS-S",
                "title": "Linen shirt",
                "quantity": 2,
                "fulfilledQuantity": 0,
                "unitPrice": "10.00",
            }
        ],
        "totals": {"subtotal": "20.00", "shipping": "0.00", "total": "20.00"},
        "shippingAddress": {
            "name": "Kim Example",
            "line1": "1 Sample Street",
            "city": "Sampleton",
            "postalCode": "12345",
            "country": "DE",
        },
        "shipments": [],
        "placedAt": AT,
        "updatedAt": AT,
    }


def _cancelled_order(number: int) -> dict[str, Any]:
    cancellation = {"cancelledAt": AT, "reason": "CUSTOMER", "restocked": True}
    states = {"status": "CANCELLED", "cancellation": cancellation}
    return _order(number) | states


def _product(number: int) -> dict[str, Any]:
    return {
        "id": f"prod_{number:08}",
        "handle": f"linen-shirt-{number}",
        "title": "Linen shirt",
        "status": "active",
        "variants": [
            {
                "id": f"var_{number:08}",
                "title": "S",
                "sku": f"LS-{number}",
                "price": "10.00",
                "stock": 5,
            }
        ],
        "updatedAt": AT,
    }


def _deleted_product(number: int) -> dict[str, Any]:
    return {"id": f"prod_{number:08}"}


def _stock(number: int) -> dict[str, Any]:
    return {
        "id": f"var_{number:08}",
        "productId": f"prod_{number:08}",
        "variantId": f"var_{number:08}",
        "sku": f"LS-{number}",
        "stock": 5,
    }


def _customer(number: int) -> dict[str, Any]:
    return {
        "id": f"cus_{number:08}",
        "name": "Kim Example",
        "email": f"kim-{number}@example.com",
        "updatedAt": AT,
    }


_DOCUMENTS: Mapping[str, Callable[[int], dict[str, Any]]] = {
    "order.placed": _order,
    "order.updated": _order,
    "order.cancelled": _cancelled_order,
    "product.updated": _product,
    "product.deleted": _deleted_product,
    "stock.changed": _stock,
    "customer.updated": _customer,
}


class Counterpart(ABC):
    """The system on the other side of a connector, and actions of its users."""

    secrets: Sequence[str] = ()
    """Secrets of the connector's settings, which must never appear anywhere."""
    unpluggings = 50
    """How often a test disconnects the system."""

    @abstractmethod
    def connector(self) -> Connector[Any]:
        """Return a new connector, as after a restart."""

    @abstractmethod
    def state(self) -> object:
        """Return all of the system's data that a connector could change."""

    @abstractmethod
    def example(self) -> Mapping[str, object]:
        """Return the table `[connectors.NAME]` of the documentation."""

    async def provoke(self) -> Sequence[str]:
        """Make operations fail; return everything that a person or log would see."""
        return ()

    async def unplug(self) -> None:
        """Make the system unreachable, and break open connections."""
        raise NotImplementedError("override unplug() and plug_in()")

    async def plug_in(self) -> None:
        """Make the system reachable again; it is ready when this returns."""
        raise NotImplementedError("override unplug() and plug_in()")


class Bench(Counterpart):
    """The counterpart of a connector that reads records."""

    many_records = 100_000
    """How many records are offered to show that memory does not grow with them."""

    @abstractmethod
    def offer(self, first: int, number: int) -> None:
        """Offer valid records `first`, `first + 1`, …; a number is always one event."""

    @abstractmethod
    def offer_a_bad_one_among(self, good: int) -> None:
        """Offer `good` valid records with one unusable record in the middle."""

    @abstractmethod
    def offer_with_unknown_field(self, number: int) -> None:
        """Offer a valid record with a field that the connector does not know."""

    @abstractmethod
    def complaints(self, host: MemoryHost) -> Sequence[str]:
        """Return the messages about unusable records."""

    async def take_in(self, connector: Connector[Any], host: MemoryHost) -> None:
        """Let the connector read what is offered; pulls, unless overridden."""
        await host.pull(connector)


class Failure(Enum):
    """A way in which a reachable system fails."""

    REFUSES = auto()
    """It understands the change and refuses it for good: `Rejected`."""
    BUSY = auto()
    """It asks for a wait and accepts nothing: `NotSent`."""
    BREAKS = auto()
    """The connection breaks and nothing is accepted: `Uncertain` or `NotSent`."""
    LOSES_ANSWER = auto()
    """The change is accepted, but the connection breaks before the answer:
    `Uncertain`."""
    BABBLES = auto()
    """The change is accepted, but the answer is unreadable: `Uncertain`."""


class PushBench(Counterpart):
    """The counterpart of a connector that writes changes."""

    failures: Sequence[Failure] = tuple(Failure)
    """The ways in which it can fail; at least one."""

    @abstractmethod
    async def effects(self) -> Sequence[int]:
        """Return the number of each change that took effect, once for each time."""

    @abstractmethod
    def tries(self) -> int:
        """Return how many writes were attempted, successful or not.

        Count whatever reveals a second attempt: write requests, files begun,
        transactions.
        """

    @abstractmethod
    async def fail(self, failure: Failure) -> None:
        """Fail in that way until `recover` is called."""

    @abstractmethod
    async def recover(self) -> None:
        """Work again."""

    def change(self, number: int, topic: str | None = None) -> Change:
        """Return change `number` of a topic; by default the connector's first topic."""
        return sample_change(number, topic or min(self.connector().spec.topics))

    async def at_rest(self) -> None:
        """Wait until the system has finished everything that reached it."""
