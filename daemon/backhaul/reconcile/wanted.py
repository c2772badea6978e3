"""What is asked of the desk, and where: walks over the lists of the platform."""

from msgspec import Struct

BACKFILL = "backfill"
FULL = "full"
PATH = "/api/reconcile"


class Wanted(Struct, frozen=True):
    """What to walk over; nothing named means everything."""

    job: str
    stores: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
