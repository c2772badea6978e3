"""Mappings: a SKU or a carrier's name of the back office means another in the store."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct

from backhaul.core.sku_matching import same_text
from backhaul.errors import BackhaulError

if TYPE_CHECKING:
    from collections.abc import Sequence

LONGEST_NAME = 200
"""Characters of an alias and of a name."""


class MappingKind(StrEnum):
    """What a mapping names."""

    SKU = "sku"
    CARRIER = "carrier"

    @property
    def word(self) -> str:
        """The kind for people: `SKU`."""
        return "SKU" if self is MappingKind.SKU else "carrier"


class NameMapping(Struct, frozen=True):
    """The `alias` of the back office means the `name` in the store.

    It applies to the records of one `connection`, or of all if that is empty.
    """

    kind: MappingKind
    alias: str
    name: str
    connection: str = ""

    @property
    def folded(self) -> str:
        """The alias as it is compared."""
        return folded(self.kind, self.alias)

    def in_words(self) -> str:
        """Return the mapping for people: `SKU LAMP-2 means LAMP-02`."""
        where = f" (only {self.connection})" if self.connection else ""
        return f"{self.kind.word} {self.alias} means {self.name}{where}"


class ListedMapping(Struct, frozen=True):
    """A stored mapping; `connection` is empty if it applies to all."""

    id: int
    store: str
    kind: str
    alias: str
    name: str
    connection: str
    created_at: str
    created_by: str


class UsedMapping(Struct, frozen=True):
    """A mapping that was used to match a record; `is_known` if the store has the name.

    A carrier's name is always known.
    """

    kind: MappingKind
    alias: str
    name: str
    is_known: bool = True

    def in_words(self) -> str:
        """Return for people how the record was read."""
        said = f"{self.kind.word} {self.alias} was read as {self.name} by a mapping"
        return said if self.is_known else f"{said}, but the store has no {self.name}"


def folded(kind: MappingKind, alias: str) -> str:
    """Return an alias as it is compared.

    A store may have the SKUs `a1` and `A1`; carriers differ in more than capitals.
    """
    if kind is MappingKind.SKU:
        return same_text(alias)
    return " ".join(alias.casefold().split())


def require_valid(mapping: NameMapping) -> None:
    """Raise BackhaulError, with what to write, if a mapping cannot be stored."""
    for what, text in (("alias", mapping.alias), ("name", mapping.name)):
        if not text.strip():
            raise BackhaulError(f"the {what} of the mapping is empty")
        if len(text) > LONGEST_NAME:
            raise BackhaulError(
                f"the {what} {text[:40]!r}… has more than {LONGEST_NAME} characters"
            )
        if not text.isprintable():
            raise BackhaulError(
                f"the {what} {text[:40]!r} contains characters that cannot be shown"
            )
    if mapping.alias == mapping.name or (
        mapping.kind is MappingKind.SKU
        and mapping.folded == folded(mapping.kind, mapping.name)
    ):
        raise BackhaulError(
            f"{mapping.kind.word} {mapping.alias} already means {mapping.name}; a"
            " mapping needs two different names"
        )


class Mappings(Protocol):
    """The mappings of all stores. Each change has an audit entry. May raise Busy."""

    async def add(
        self, store: str, mappings: Sequence[NameMapping], who: str, reason: str
    ) -> int:
        """Store mappings in one transaction; return how many are new or changed.

        A mapping replaces the one with the same alias, kind and connection.
        """
        ...

    async def remove(self, id_: int, who: str, reason: str) -> ListedMapping:
        """Remove a mapping. Raises BackhaulError if there is none with this number."""
        ...
