"""Bodies that shoppers send."""

from typing import Annotated, Literal

from pydantic import Field

from backhaul_reference.state.checkout import Cart, Wish
from backhaul_reference.state.customers import Contact
from backhaul_reference.web.bodies import (
    WHOLE,
    Body,
    Country,
    Email,
    Identifier,
    LongText,
    OptionalText,
    Phone,
    Text,
    Upper,
)


class Item(Body):
    product_id: Identifier
    variant_id: Identifier | None = None
    quantity: Annotated[int, Field(ge=1, le=999), WHOLE]


class Customer(Body):
    name: Text
    email: Email
    phone: Phone | None = None


class Address(Body):
    name: OptionalText | None = None
    phone: Phone | None = None
    address1: Text
    address2: OptionalText | None = None
    city: Text
    province: OptionalText | None = None
    country: Country
    zip: OptionalText | None = None


class PlaceOrder(Body):
    payment_method: Annotated[Literal["COD", "CUSTOM_QR"], Upper]
    items: Annotated[list[Item], Field(min_length=1, max_length=100)]
    customer: Customer
    shipping_address: Address
    discount_code: OptionalText | None = None
    note: LongText | None = None
    accepts_marketing: bool = False

    def cart(self) -> Cart:
        wishes = [
            Wish(item.product_id, item.variant_id, item.quantity) for item in self.items
        ]
        contact = Contact(
            name=self.customer.name,
            email=self.customer.email,
            phone=self.customer.phone,
            accepts_marketing=self.accepts_marketing,
        )
        return Cart(
            payment_method=self.payment_method,
            wishes=wishes,
            contact=contact,
            address=self.shipping_address.model_dump(),
            discount_code=self.discount_code or None,
            note=self.note,
        )
