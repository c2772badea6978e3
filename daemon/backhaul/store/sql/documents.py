"""Documents kept as JSON; see backhaul.store.documents."""

from backhaul.store.documents import (
    Damaged,
    as_bytes,
    document_of,
    intact,
    is_damaged,
    is_document,
)

__all__ = ["Damaged", "as_bytes", "document_of", "intact", "is_damaged", "is_document"]
