"""Finds a customer by id or e-mail, and near matches of a mistyped one."""

from __future__ import annotations

import json
import re
import string
from typing import TYPE_CHECKING, Any, TypeAlias

from backhaul.core.identity import address_digest
from backhaul.store.customer_erasure import CustomerTrace
from backhaul.store.sql.dialect import (
    ascii_text,
    contains,
    elements,
    hint,
    member,
    same_letters,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from backhaul.store.sql.family import Connection

    Search: TypeAlias = Callable[[Connection, str], Iterable[tuple[str, str, str]]]
    """From words to the store, id and name of customers that have them."""

WINDOW = 2_000
"""Rows that one statement reads: a long read would keep the log from shrinking."""
_ORDERS = f"""
    SELECT id, CASE WHEN {contains("lower(document)", ":part")} THEN document END
    FROM orders WHERE store = :store AND id > :after ORDER BY id LIMIT :window
"""  # noqa: S608 - fragments
# A body may have any letter of an e-mail as \\uXXXX.
_BODY, _ESCAPE = ascii_text("body"), r"'\u'"
_EVENTS = f"""
    SELECT id, CASE WHEN store = :store AND ({contains(f"lower({_BODY})", ":part")}
        OR {contains(_BODY, _ESCAPE)}) THEN body END
    FROM inbox WHERE id > :after ORDER BY id LIMIT :window
"""  # noqa: S608 - fragments
_CUSTOMER = f"""
    SELECT id, document FROM customers WHERE store = :store AND id = :name
    UNION ALL
    SELECT id, document FROM customers
    WHERE store = :store AND {same_letters("email", ":name")}
"""  # noqa: S608 - a fragment
_ORDERS_OF_CUSTOMER = """
    SELECT id, document FROM orders WHERE customer_id = :customer AND store = :store
"""
_ERASED_AT = """
    SELECT at FROM erased_customers WHERE store = :store AND customer_id = :customer
"""
_ERASED_EMAIL = "SELECT customer_id FROM erased_emails WHERE digest = :digest"


def find_customer(
    connection: Connection, store: str, name: str, emails: Collection[str]
) -> CustomerTrace | None:
    """Return what is stored of a customer, and the orders with these e-mails."""
    by_email: dict[str, str] = {}
    events: list[str] = []
    for email in emails:
        by_email |= _orders_with(connection, store, email)
        events += _events_with(connection, store, email)
    values = {"store": store, "name": name}
    found = connection.execute(_CUSTOMER, values).fetchone()
    texts = (*by_email.values(), *events) if "@" in name else ()
    id_ = (
        found[0]
        if found
        else next(filter(None, map(_customer_id, texts)), None)
        or _known_id(connection, store, name)
    )
    values = {"store": store, "customer": id_}
    orders = dict(map(tuple, connection.execute(_ORDERS_OF_CUSTOMER, values)))
    erased = connection.execute(_ERASED_AT, values).fetchone()
    if not (found or orders or by_email or events or erased):
        return None
    known = {**orders, **by_email}
    documents = (*known.values(), *events, *([found[1]] if found else []))
    return CustomerTrace(id_, documents, tuple(known), erased[0] if erased else "")


def _orders_with(connection: Connection, store: str, email: str) -> dict[str, str]:
    """Return the documents of the orders placed with an e-mail, by their ids."""
    return {
        id_: text
        for id_, text in _windows(connection, _ORDERS, "", store, email)
        if _is_of(_loaded(text), email)
    }


def _events_with(connection: Connection, store: str, email: str) -> list[str]:
    """Return the objects of stored events that are about a customer's e-mail."""
    rows = _windows(connection, _EVENTS, 0, store, email)
    objects = (_object(_loaded(body)) for _, body in rows)
    return [json.dumps(found) for found in objects if _is_of(found, email)]


def _windows(
    connection: Connection, query: str, after: str | int, store: str, email: str
) -> Iterator[tuple[Any, Any]]:
    """Yield the key and the text of each row that may contain an e-mail."""
    values = {"store": store, "part": _ascii_part(email), "window": WINDOW}
    while True:
        rows = connection.execute(query, {**values, "after": after}).fetchall()
        yield from ((key, text) for key, text in rows if text is not None)
        if len(rows) < WINDOW:
            return
        after = rows[-1][0]


def _ascii_part(email: str) -> str:
    """Return the longest part of ASCII: SQLite's lower() changes no other letter."""
    parts: list[str] = re.findall(r"[\x00-\x7f]*", email.lower())
    return max(parts, key=len)


def _loaded(text: str | bytes) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}


def _object(document: Mapping[str, Any]) -> Mapping[str, Any]:
    found = document.get("data", document)
    return found if isinstance(found, dict) else {}


def _is_of(found: Mapping[str, Any], email: str) -> bool:
    """Return whether an object is about an e-mail; the customer's own one counts first.

    The fold and the eraser decide in the same way.
    """
    customer = found.get("customer")
    own = customer.get("email") if isinstance(customer, dict) else None
    return str(own or found.get("email")).casefold() == email.casefold()


def _customer_id(text: str) -> str | None:
    """Return the id of the customer that an order or a customer is about."""
    document = _loaded(text)
    customer = document.get("customer", document)
    id_ = customer.get("id") if isinstance(customer, dict) else None
    return id_ if isinstance(id_, str) else None


def _known_id(connection: Connection, store: str, name: str) -> str:
    """Return an id for a customer who is known by name only, never an e-mail."""
    if "@" not in name:
        return name
    digest = address_digest(store, name)
    row = connection.execute(_ERASED_EMAIL, {"digest": digest}).fetchone()
    return str(row[0]) if row else f"guest-{digest.hex()[:12]}"


MOST = 5
LETTERS = string.ascii_letters + string.digits + "_-.+@"
LONGEST = 100
# The names first: each of them is then found by an index.
_NAMES = f"{elements(':names', '$')} n {hint('CROSS')} JOIN"
_BY_ID = f"""
    SELECT c.id, c.name FROM {_NAMES} customers c ON c.id = n.value
    WHERE c.store = :store
"""  # noqa: S608 - a fragment
_BY_EMAIL = f"""
    SELECT c.id, c.email FROM {_NAMES} customers c
      ON {same_letters("c.email", "n.value")}
    WHERE c.store = :store
"""  # noqa: S608 - fragments
_BY_ORDER = f"""
    SELECT DISTINCT o.customer_id, {member("o.document", "$.customer.name")}
    FROM {_NAMES} orders o ON o.customer_id = n.value
    WHERE {hint("+")}o.store = :store
"""  # noqa: S608 - fragments
_BEGINNING = """
    SELECT id, name FROM customers
    WHERE store = :store AND id > :typed AND id < :end LIMIT :most
"""


def nearest(
    connection: Connection, store: str, typed: str, search: Search
) -> dict[str, str]:
    """Return at most MOST customers: their ids, and what each is called.

    An index finds each of them, however many customers there are.
    """
    found: dict[str, str] = {}
    for id_, called in _near(connection, store, typed, search):
        if not found.get(id_):
            found[id_] = called or ""
        if len(found) == MOST:
            break
    return found


def _near(
    connection: Connection, store: str, typed: str, search: Search
) -> Iterator[tuple[str, str | None]]:
    names = sorted(_typing_errors(typed)) if len(typed) <= LONGEST else []
    values = {"store": store, "names": json.dumps(names)}
    for query in (_BY_EMAIL,) if "@" in typed else (_BY_ID, _BY_ORDER):
        yield from connection.execute(query, values).fetchall()
    end = {"end": f"{typed}\U0010ffff", "most": MOST + 1}
    begun = connection.execute(
        _BEGINNING, {"store": store, "typed": typed, **end}
    ).fetchall()
    # If many begin so, none of them is nearer than another.
    yield from begun if len(begun) <= MOST else ()
    for its_store, id_, name in search(connection, typed):
        if its_store == store:
            yield id_, name


def _typing_errors(text: str) -> set[str]:
    """Return the texts that differ by one letter, or by two that are swapped."""
    cuts = [(text[:at], text[at:]) for at in range(len(text) + 1)]
    shorter = {head + tail[1:] for head, tail in cuts if tail}
    swapped = {h + t[1] + t[0] + t[2:] for h, t in cuts if len(t) > 1}
    others: Iterable[str] = (
        head + letter + rest
        for head, tail in cuts
        for letter in LETTERS
        for rest in (tail, tail[1:])
    )
    return (shorter | swapped).union(others) - {text}
