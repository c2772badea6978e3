"""What is asked of the desk, and where: walks over the lists of the platform."""

import msgspec

BACKFILL = "backfill"
FULL = "full"
PATH = "/api/reconcile"


class Wanted(msgspec.Struct, frozen=True):
    """What to walk over; nothing named means everything."""

    job: str
    stores: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
