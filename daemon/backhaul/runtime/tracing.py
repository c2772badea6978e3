"""What the parts of the daemon need of a tracer, and the span of the present work.

Parts have no tracer where traces are off. Nothing here imports OpenTelemetry.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

SpanKind: TypeAlias = Literal["server", "client", "producer", "consumer", "internal"]
Attributes: TypeAlias = "Mapping[str, str | int | bool]"

STORE = "backhaul.store"
CONNECTION = "backhaul.connection"
COMMAND = "backhaul.command"
ORDER = "backhaul.order"
PRODUCT = "backhaul.product"
INBOX: Attributes = {
    "messaging.system": "backhaul",
    "messaging.destination.name": "inbox",
}
"""What every span of the inbox says about it."""


class Span(Protocol):
    """One step of a trace, until it ends.

    `traceparent` names the span as the header of W3C Trace Context does. `trace_id` and
    `span_id` are its hexadecimal ids.
    """

    @property
    def traceparent(self) -> str: ...

    @property
    def trace_id(self) -> str: ...

    @property
    def span_id(self) -> str: ...

    def child(self, name: str, kind: SpanKind, attributes: Attributes) -> Span:
        """Begin a span within this one, now."""
        ...

    def put(self, name: str, value: str | int | bool) -> None:
        """Set an attribute. Never give it a secret, or data of a customer."""
        ...

    def end(self, error: str = "") -> None:
        """End the span, and hand it over for export; `error` says what went wrong.

        A span that never ends is never exported.
        """
        ...


class Tracer(Protocol):
    """Begins spans. No method waits for anything or raises an error."""

    def now(self) -> int:
        """Return the time for `began_at`, in nanoseconds since 1970."""
        ...

    def begin(
        self,
        name: str,
        kind: SpanKind,
        attributes: Attributes,
        parent: str | None = None,
        *,
        began_at: int | None = None,
    ) -> Span:
        """Begin a span now, or at a time of `now`.

        `parent` is a `traceparent`. A new trace begins without one, or if it cannot be
        read.
        """
        ...


_PRESENT: ContextVar[Span | None] = ContextVar("present_span", default=None)


def present_span() -> Span | None:
    """Return the span that the present work belongs to, None without any."""
    return _PRESENT.get()


@contextmanager
def working_on(span: Span | None) -> Iterator[None]:
    """Make a span the present one in the block; None leaves the present one."""
    if span is None:
        yield
        return
    token = _PRESENT.set(span)
    try:
        yield
    finally:
        _PRESENT.reset(token)


def attributes_of_object(kind: str | None, object_id: str | None) -> Attributes:
    """Return the attribute that names an order or a product; customers have none."""
    if object_id and kind == "order":
        return {ORDER: object_id}
    if object_id and kind in {"product", "level"}:
        return {PRODUCT: object_id}
    return {}
