"""Lists of products and of customers, the newest ids first, page by page."""

from __future__ import annotations

from msgspec import Struct

MOST_COUNTED = 1_000
"""A list counts at most so many orders of a customer."""


class ListPlace(Struct, frozen=True):
    """The place of a product or a customer in its list."""

    store: str
    id: str

    def __str__(self) -> str:
        """Return the place as one text."""
        return f"{self.store} {self.id}"

    @classmethod
    def of(cls, text: str | None) -> ListPlace | None:
        """Return the place that a text names, or None."""
        parts = (text or "").split(" ", 1)
        return cls(*parts) if len(parts) == len(cls.__struct_fields__) else None


class ListedProduct(Struct, frozen=True):
    """A product in a list; `stock` is None if no stock of a variant is known.

    `from_minor` is the lowest price of its variants, in minor units of the currency.
    """

    store: str
    id: str
    title: str
    status: str
    updated_at: str
    variants: int
    stock: int | None
    from_minor: int | None
    currency: str | None

    @property
    def place(self) -> ListPlace:
        """The place of the product in its list."""
        return ListPlace(self.store, self.id)


class ListedCustomer(Struct, frozen=True):
    """A customer in a list; `orders` counts at most MOST_COUNTED."""

    store: str
    id: str
    name: str | None
    email: str | None
    updated_at: str
    orders: int

    @property
    def place(self) -> ListPlace:
        """The place of the customer in its list."""
        return ListPlace(self.store, self.id)
