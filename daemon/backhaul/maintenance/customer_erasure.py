"""Erases a customer from everything that is stored."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Protocol

from loguru import logger
from msgspec import Struct

from backhaul.core import strict_json
from backhaul.core.clock import normalize
from backhaul.core.identity import address_digest
from backhaul.errors import BackhaulError, Busy, Unusable
from backhaul.maintenance.search_indexer import describe
from backhaul.platform import personal_data
from backhaul.platform.personal_data import CustomerIdentity

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable
    from typing import TypeAlias

    from backhaul.core.clock import Clock
    from backhaul.store.customer_erasure import CustomerTrace, Erasure

    Find: TypeAlias = Callable[
        [str, str, Collection[str]], Awaitable[CustomerTrace | None]
    ]
    Note: TypeAlias = Callable[[CustomerTrace, "CustomerEraser"], Awaitable[None]]

SLICE_SECONDS = 0.005
AT_ONCE = 16
"""Orders redacted in one transaction."""
LOG_TRIES = 20
LOG_PAUSE_SECONDS = 0.5
LARGEST_BYTES = 256_000_000
"""A larger database file is rewritten only on request: webhooks wait meanwhile."""
_ESCAPE = b"\\"
"""JSON with a backslash must be decoded: any letter may be written as \\uXXXX."""
_TABLES = (
    *("records", "quarantine", "deliveries", "delivery_attempts"),
    *("saved_views", "inbox"),
)
_TOPICS = {"customer": "customers/read", "order": "orders/read"}


class CustomerEraser:
    """Removes one customer, known by id and by every identifying text, from a text."""

    def __init__(self, customer_id: str, persons: Iterable[CustomerIdentity]) -> None:
        self._id = customer_id
        known = list(persons)
        # A text without "@" ("walk-in") is shared by many and identifies nobody.
        given = {person.email.casefold() for person in known if person.email}
        self.emails = {email for email in given if "@" in email}
        self.names = {person.name for person in known if person.name}
        self.texts = {text for person in known for text in person.texts()}
        spelled = {each for text in self.texts for each in _spellings(text)}
        # The longest first: an e-mail address may begin with the name. Whole words
        # only: the SKU BLEND-250 does not mention a customer called Blend.
        every = "|".join(map(re.escape, sorted(spelled, key=len, reverse=True)))
        self._pattern = re.compile(rf"(?<![\w-])(?:{every})(?![\w-])", re.IGNORECASE)
        self._marks = [m.casefold().encode() for m in {customer_id, *spelled}]

    def words(self) -> list[str]:
        """Return the texts, and their words that the search index may contain."""
        parts = {word for text in self.texts for word in re.findall(r"\w+", text)}
        usual = {
            word for email in self.emails for word in email.split("@")[1].split(".")
        }
        long = {part for part in parts if len(part) >= personal_data.SHORTEST}
        return sorted(
            self.texts | {part for part in long if part.casefold() not in usual}
        )

    def document(self, kind: str, text: str) -> str:
        """Return an `order` or `customer` document without the customer's data."""
        document = strict_json.decode_object(text.encode())
        return strict_json.encode(
            personal_data.redacted(_TOPICS[kind], document)
        ).decode()

    def body(self, topic: str, body: bytes) -> bytes | None:
        """Return the body without the customer; None if it does not mention them."""
        plainly = self._may_mention(body)
        if not plainly and _ESCAPE not in body:
            return None
        try:
            document = strict_json.decode_object(body)
        except Unusable:
            return b"" if plainly else None
        left = self._redacted(topic, document)
        return None if left == document else strict_json.encode(left)

    def _may_mention(self, body: bytes) -> bool:
        lowered = body.decode(errors="replace").casefold().encode()
        return any(mark in lowered for mark in self._marks)

    def _redacted(self, topic: str, document: dict[str, Any]) -> dict[str, Any]:
        inner = document.get("data")
        data = inner if isinstance(inner, dict) else document
        named = document.get("topic")
        topic = named if isinstance(named, str) else topic
        person = personal_data.customer_of(topic, data)
        if person is None:
            return dict(self._without(document))
        if self._is_other(person):
            return document
        return personal_data.redacted_envelope(document, topic)

    def _without(self, node: Any) -> Any:
        return personal_data.without(node, self.texts, personal_data.SOLD)

    def _is_other(self, person: CustomerIdentity) -> bool:
        by_email = bool(person.email) and str(person.email).casefold() in self.emails
        return person.id != self._id and not by_email

    def text(self, text: str) -> str | None:
        """Return any text without the customer; None if it does not mention them."""
        body = text.encode()
        if not self.texts or not (self._may_mention(body) or _ESCAPE in body):
            return None
        try:
            document = strict_json.decode(body)
        except Unusable:
            document = None
        if isinstance(document, dict | list):
            rest = self._without(document)
            return None if rest == document else strict_json.encode(rest).decode()
        left = self._pattern.sub(personal_data.ERASED, text)
        return None if left == text else left


def _spellings(text: str) -> set[str]:
    """Return how a text may be written in JSON and in CSV."""
    escaped = strict_json.encode(text).decode()[1:-1]
    return {text, escaped, text.replace('"', '""')}


class ReceivedFiles(Protocol):
    """The files of webhooks that are not in the database yet."""

    async def move_all(self) -> None:
        """Move all webhooks that are answered by now into the database.

        May raise Busy.
        """
        ...

    async def clear(self) -> bool:
        """Clear the bytes of moved webhooks; return False if that is impossible now."""
        ...


class CustomerErasure:
    """Erases customers, one at a time; repeating an erasure is safe.

    Repeat an erasure that was interrupted to finish it: the database records that a
    customer's bytes may be left before anything is erased, until they are gone.
    """

    def __init__(
        self,
        store: Erasure,
        clock: Clock,
        largest_bytes: int = LARGEST_BYTES,
        *,
        receivers: ReceivedFiles | None = None,
    ) -> None:
        self._store = store
        self._clock = clock
        self._largest_bytes = largest_bytes
        self._receivers = receivers

    async def erase(
        self, store: str, name: str, who: str, *, rewrite: bool = False
    ) -> dict[str, object]:
        """Erase the customer with this id or e-mail; return what was erased.

        Raises BackhaulError if no such customer is known.
        """
        if self._receivers is not None:
            await self._receivers.move_all()
        trace, eraser = await self._remember(store, name)
        was_interrupted = await self._store.begin(store, trace.customer_id)
        counts = await self._erase(store, trace, eraser)
        erased = ", ".join(f"{count} {what}" for what, count in counts.items())
        detail = f"customer {trace.customer_id} of {store}: {erased}"
        await self._store.audit(who, "forget", detail)
        # After an interrupted erasure the texts to search for are unknown.
        texts = None if was_interrupted or rewrite else eraser.words()
        left = await self._clear_unused_bytes(texts, even_large=rewrite)
        if self._receivers is not None and not await self._retry(self._receivers.clear):
            left = left or "receivers"
        if not left:
            await self._store.finish(store, trace.customer_id)
        return {
            "customer": trace.customer_id,
            "erased": counts,
            "left_behind": left,
            "texts": sorted(eraser.texts),
        }

    async def _remember(
        self, store: str, name: str
    ) -> tuple[CustomerTrace, CustomerEraser]:
        """Make the fold redact this customer from now on; return all that is stored."""

        async def note(trace: CustomerTrace, eraser: CustomerEraser) -> None:
            digests = [address_digest(store, email) for email in eraser.emails]
            await self._store.register(store, trace, digests)

        return await _find_all(self._store.find_customer, note, store, name)

    async def _erase(
        self, store: str, trace: CustomerTrace, eraser: CustomerEraser
    ) -> dict[str, int]:
        """Erase other mentions first, and the customer's own documents last.

        Thus an interrupted erasure can be repeated from the beginning.
        """
        scanned = {_NAMES[t]: await self._scan(store, t, eraser) for t in _TABLES}
        redact = self._store.redact
        orders = 0
        for start in range(0, len(trace.orders), AT_ONCE):
            some = trace.orders[start : start + AT_ONCE]
            orders += await redact(store, "order", some, eraser, describe)
        one = [trace.customer_id]
        customers = await redact(store, "customer", one, eraser, describe)
        return {"customers": customers, "orders": orders, **scanned}

    async def _scan(self, store: str, table: str, eraser: CustomerEraser) -> int:
        after, changed = 0, 0
        while True:
            step = await self._store.redact_rows(
                store, table, after, eraser, SLICE_SECONDS
            )
            changed += step.changed
            if step.last is None:
                return changed
            after = step.last

    async def _clear_unused_bytes(
        self, texts: list[str] | None, *, even_large: bool
    ) -> str:
        """Clear unused parts of the file; return what prevents it, or "".

        The file is rewritten if it contains one of the texts, or if `texts` is None.
        """
        more = await self._store.compact_search(begin=True)
        while more:
            more = await self._store.compact_search(begin=False)
        if not await self._empty_log():
            return "log"
        if texts is not None and not await self._store.holds(texts):
            return ""
        if not even_large and await self._store.file_bytes() > self._largest_bytes:
            return "file"
        try:
            await self._store.rewrite()
        except Busy as error:
            logger.bind(action="erasure.not_rewritten").warning("{}", error)
            return "room"
        return "" if await self._empty_log() else "log"

    async def _empty_log(self) -> bool:
        return await self._retry(self._store.empty_log)

    async def _retry(self, clear: Callable[[], Awaitable[bool]]) -> bool:
        for _ in range(LOG_TRIES):
            if await clear():
                return True
            await self._clock.sleep(LOG_PAUSE_SECONDS)
        return False


class ErasurePreview(Struct, frozen=True):
    """Who would be erased, for the operator to confirm.

    `orders` is their number in the mirror. `since` is the earliest time in their
    documents, None if there is none. `forgotten_at` is empty unless the customer was
    erased before.
    """

    customer: str
    names: list[str]
    emails: list[str]
    orders: int
    since: str | None
    forgotten_at: str


async def preview(find: Find, store: str, name: str) -> ErasurePreview:
    """Return the customer with this id or e-mail; write nothing.

    Raises BackhaulError if no such customer is known.
    """

    async def note(trace: CustomerTrace, eraser: CustomerEraser) -> None:
        pass

    trace, eraser = await _find_all(find, note, store, name)
    return ErasurePreview(
        trace.customer_id,
        sorted(eraser.names),
        sorted(eraser.emails),
        len(trace.orders),
        min(filter(None, map(_began, trace.documents)), default=None),
        trace.erased_at,
    )


async def _find_all(
    find: Find, note: Note, store: str, name: str
) -> tuple[CustomerTrace, CustomerEraser]:
    """Return all that is stored of a customer; call `note` whenever there is more.

    The search is repeated until nothing is new: an e-mail address leads to orders
    without a customer id, and events may have been folded before the first `note`.
    """
    persons = {CustomerIdentity(email=name.casefold())} if "@" in name else set()
    known, emails = "", {person.email for person in persons if person.email}
    while True:
        trace = await find(store, name, sorted(emails))
        if trace is None:
            raise BackhaulError(
                f"store {store} has no customer with the id or e-mail {name!r};"
                " Backhaul searched the customers, the orders and the erased"
                " customers"
            )
        persons.update(_identities(trace, emails))
        eraser = CustomerEraser(trace.customer_id, persons)
        if trace.customer_id == known and eraser.emails <= emails:
            return trace, eraser
        known, emails = trace.customer_id, emails | eraser.emails
        await note(trace, eraser)


def _began(text: str) -> str | None:
    """Return when an order was placed, or a customer created."""
    document = strict_json.decode_object(text.encode())
    at = document.get("placedAt") or document.get("createdAt")
    try:
        return normalize(at) if isinstance(at, str) else None
    except ValueError:
        return None


_NAMES = {
    "inbox": "events",
    "records": "records",
    "quarantine": "in quarantine",
    "deliveries": "deliveries",
    "delivery_attempts": "attempts of deliveries",
    "saved_views": "saved views",
}


def _identities(trace: CustomerTrace, emails: set[str]) -> Iterable[CustomerIdentity]:
    """Yield the customer's personal data in each document that is theirs.

    Another customer's order may have this customer's e-mail address too.
    """
    for text in trace.documents:
        document = strict_json.decode_object(text.encode())
        topic = "" if "customer" in document else _TOPICS["customer"]
        person = personal_data.customer_of(topic, document)
        if person is None:
            continue
        by_email = (person.email or "").casefold() in emails
        if by_email or person.id in (None, trace.customer_id):
            yield person
