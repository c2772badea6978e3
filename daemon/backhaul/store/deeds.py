"""What people did, as it stands in the audit."""

from __future__ import annotations

from msgspec import Struct


class Deed(Struct, frozen=True):
    """`who` did an `action`, such as `jobs pause`, to what `detail` names.

    It is written in the transaction of what was done: neither is there alone.
    """

    who: str
    action: str
    detail: str
