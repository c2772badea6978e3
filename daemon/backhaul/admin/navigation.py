"""The sections of the dashboard, and the pages in each."""

from __future__ import annotations

from msgspec import Struct

from backhaul.store.operators import Role


class NavPage(Struct, frozen=True):
    """A page in the navigation; `below` are other paths that belong to it."""

    path: str
    name: str
    needs: Role = Role.VIEWER
    below: tuple[str, ...] = ()

    def has(self, path: str) -> bool:
        """Return whether a path is this page's or one below it."""
        return any(
            path == own or (own != "/" and path.startswith(f"{own}/"))
            for own in (self.path, *self.below)
        )


class Section(Struct, frozen=True):
    """Pages that belong together, under one name."""

    name: str
    pages: tuple[NavPage, ...]


SECTIONS = (
    Section("Overview", (NavPage("/", "Overview"),)),
    Section(
        "Work",
        (
            NavPage("/commands", "Commands"),
            NavPage("/quarantine", "Quarantine", below=("/mappings",)),
            NavPage("/records", "Waiting records"),
            NavPage("/incidents", "Incidents"),
            NavPage("/deliveries", "Deliveries"),
        ),
    ),
    Section(
        "Store data",
        (
            NavPage("/orders", "Orders", below=("/mirror/order",)),
            NavPage("/products", "Products", below=("/mirror/product",)),
            NavPage("/stock", "Stock", below=("/mirror/sku",)),
            NavPage("/customers", "Customers", below=("/mirror/customer",)),
            NavPage("/targets", "Stock counts"),
            NavPage("/mirror", "Latest changes"),
            NavPage("/drift", "Drift"),
        ),
    ),
    Section(
        "Connections",
        (
            NavPage("/stores", "Stores"),
            NavPage("/connectors", "Connectors"),
            NavPage("/jobs", "Jobs"),
        ),
    ),
    Section(
        "Activity",
        (
            NavPage("/events", "Events"),
            NavPage("/audit", "Audit log", Role.OPERATOR),
            NavPage("/charts", "Charts"),
            NavPage("/users", "Users", Role.ADMIN, below=("/tokens",)),
        ),
    ),
)


def sections_of(role: Role) -> list[Section]:
    """Return the sections with the pages that a role may read."""
    found = [
        Section(each.name, tuple(page for page in each.pages if page.needs <= role))
        for each in SECTIONS
    ]
    return [each for each in found if each.pages]


def place_of(path: str) -> tuple[str, str]:
    """Return the name of the section and the path of the page; empty if none."""
    for section in SECTIONS:
        for page in section.pages:
            if page.has(path):
                return section.name, page.path
    return "", ""
