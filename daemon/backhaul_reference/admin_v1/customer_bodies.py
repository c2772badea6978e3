"""Bodies that create and change customers."""

from typing import Annotated

from pydantic import ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from backhaul_reference.documents import Document
from backhaul_reference.web.bodies import (
    Body,
    Country,
    Email,
    Identifier,
    LongText,
    OptionalText,
    Phone,
    Tags,
    Text,
    at_least_one,
)


class Address(Body):
    id: Identifier | None = None
    name: OptionalText | None = None
    phone: Phone | None = None
    address1: OptionalText | None = None
    address2: OptionalText | None = None
    city: OptionalText | None = None
    province: OptionalText | None = None
    country: Country | None = None
    zip: OptionalText | None = None
    is_default: bool = False


class ChangedCustomer(Body):
    email: Email | None = None
    phone: Phone | None = None
    first_name: OptionalText | None = None
    last_name: OptionalText | None = None
    name: OptionalText | None = None
    tags: Tags | None = None
    note: LongText | None = None
    accepts_marketing: bool | None = None
    addresses: Annotated[list[Address], Field(max_length=100)] | None = None
    external_id: Text | None = None

    def values(self) -> Document:
        """The members that were sent, by their field names."""
        return self.model_dump(exclude_unset=True)


REACHED: list[Document] = [
    {"required": [name], "properties": {name: {"type": "string"}}}
    for name in ("email", "phone")
]


class NewCustomer(ChangedCustomer):
    model_config = ConfigDict(json_schema_extra=at_least_one(*REACHED))

    @model_validator(mode="after")
    def _can_be_reached(self) -> "NewCustomer":
        if not self.email and not self.phone:
            raise PydanticCustomError("REQUIRED", "email or phone is required")
        return self
