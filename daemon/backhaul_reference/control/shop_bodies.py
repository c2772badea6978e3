"""Bodies that arrange a shop: collections and menus."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, Field, StringConstraints, model_validator
from pydantic_core import PydanticCustomError

from backhaul_reference.documents import Document
from backhaul_reference.web.bodies import (
    Body,
    Identifier,
    LongText,
    Text,
    Upper,
    Url,
)

Handle = Annotated[
    str, StringConstraints(pattern=r"^[a-z0-9]+(?:-[a-z0-9]+)*$", max_length=255)
]
ProductIds = Annotated[list[Identifier], Field(max_length=10_000)]
Match = Annotated[Literal["ALL", "ANY"], Upper]
Address = re.compile(r"(?:https?://|mailto:|tel:|/|#)\S*")
DEEPEST_MENU = 5


class Rule(Body):
    column: Annotated[Literal["TAG"], Upper] = "TAG"
    relation: Annotated[Literal["EQUALS", "NOT_EQUALS"], Upper]
    condition: Text


Rules = Annotated[list[Rule], Field(min_length=1, max_length=50)]


class CollectionFields(Body):
    handle: Handle | None = None
    description: LongText | None = None
    image_url: Url | None = None


class NewCollection(CollectionFields):
    title: Text
    type: Annotated[Literal["MANUAL", "AUTOMATIC"], Upper] = "MANUAL"
    match: Match = "ALL"
    rules: Rules | None = None
    product_ids: ProductIds = Field(default_factory=list)
    published: bool = True

    @model_validator(mode="after")
    def _has_what_its_type_needs(self) -> "NewCollection":
        automatic = self.type == "AUTOMATIC"
        if automatic and not self.rules:
            raise PydanticCustomError("REQUIRED", "an automatic one needs rules")
        if automatic and self.product_ids:
            raise PydanticCustomError("NOT_ALLOWED", "its rules decide who belongs")
        if not automatic and self.rules:
            raise PydanticCustomError("NOT_ALLOWED", "a manual one has no rules")
        return self

    def values(self) -> Document:
        return {**self.model_dump(), "rules": _dumped(self.rules or [])}


class ChangedCollection(CollectionFields):
    title: Text = ""
    handle: Handle = ""
    match: Match = "ALL"
    rules: Rules = Field(default_factory=list)
    product_ids: ProductIds = Field(default_factory=list)
    published: bool = True

    def values(self) -> Document:
        return self.model_dump(exclude_unset=True)


class CollectionProducts(Body):
    product_ids: ProductIds


def _dumped(rules: list[Rule]) -> list[Document]:
    return [rule.model_dump() for rule in rules]


class MenuItem(Body):
    label: Text
    type: Annotated[Literal["PRODUCT", "COLLECTION", "URL", "PAGE"], Upper]
    target: Annotated[str, StringConstraints(min_length=1, max_length=2048)]
    children: Annotated[list["MenuItem"], Field(max_length=100)] = Field(
        default_factory=list
    )

    @model_validator(mode="after")
    def _leads_somewhere(self) -> "MenuItem":
        if self.type == "URL" and not Address.fullmatch(self.target):
            raise PydanticCustomError("BAD_FORMAT", "target must be an address")
        if self.type == "PAGE" and not re.fullmatch("[a-z0-9-]+", self.target):
            raise PydanticCustomError("BAD_FORMAT", "target must be a handle")
        return self

    def depth(self) -> int:
        return 1 + max((child.depth() for child in self.children), default=0)


def _shallow(items: list[MenuItem]) -> list[MenuItem]:
    if any(item.depth() > DEEPEST_MENU for item in items):
        message = f"menus are at most {DEEPEST_MENU} deep"
        raise PydanticCustomError("TOO_DEEP", "{why}", {"why": message})
    return items


class Menu(Body):
    title: Text | None = None
    items: Annotated[list[MenuItem], Field(max_length=100), AfterValidator(_shallow)]
