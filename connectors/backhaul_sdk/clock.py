"""Reads the wall clock, for connectors that receive no clock."""

import time
from datetime import UTC, datetime


def seconds_since_1970() -> float:
    """Return what the wall clock says; it may be set back."""
    return time.time()


def now() -> datetime:
    """Return what the wall clock says, in UTC."""
    return datetime.fromtimestamp(time.time(), UTC)
