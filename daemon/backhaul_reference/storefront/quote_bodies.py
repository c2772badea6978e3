"""Bodies that ask what something would cost."""

from typing import Annotated

from pydantic import Field

from backhaul_reference.state.shipping import Destination
from backhaul_reference.web.bodies import (
    WHOLE,
    Body,
    Country,
    Identifier,
    Money,
    OptionalText,
    Text,
)


class PricedItem(Body):
    product_id: Identifier
    variant_id: Identifier | None = None
    quantity: Annotated[int, Field(ge=1, le=999), WHOLE]
    price: Money


class QuoteAddress(Body):
    province: OptionalText | None = None
    city: OptionalText | None = None
    country: Country
    zip: OptionalText | None = None

    def destination(self) -> Destination:
        return Destination(self.country, self.province, self.city, self.zip)


class QuoteShipping(Body):
    store_id: Identifier
    items: Annotated[list[PricedItem], Field(min_length=1, max_length=100)]
    address: QuoteAddress

    def subtotal(self) -> int:
        return sum(item.price * item.quantity for item in self.items)


class CheckedCart(Body):
    subtotal: Money
    items: Annotated[list[PricedItem], Field(max_length=100)] = Field(
        default_factory=list
    )
    shipping: Money = 0


class CheckDiscount(Body):
    code: Text
    cart: CheckedCart
