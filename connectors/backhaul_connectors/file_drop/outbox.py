"""Carries news out as files: each appears whole, once, and can be looked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul_connectors.file_drop.exporting import content_of, file_name
from backhaul_connectors.file_drop.naming import EXPORTED, unfinished_name
from backhaul_sdk import Absent, Applied, CheckFailed, Found, NotSent, Uncertain

if TYPE_CHECKING:
    from backhaul_connectors.file_drop.place import Place
    from backhaul_sdk import Change
    from backhaul_sdk.outcome import LookedUp, Pushed


class Outbox:
    """The folder `folder` of a place, from which the back office takes its files.

    A change is out when its unfinished file took its name. Before that a copy goes to
    `exported/`, so what was taken away since can be told from what never came.
    """

    def __init__(self, place: Place, folder: str, ending: str) -> None:
        self._place = place
        self._folder = folder
        self._ending = ending

    async def push(self, change: Change) -> Pushed:
        name = file_name(change, self._ending)
        content = content_of(change, self._ending)
        try:
            await self._place.put(self._folder, name, content)
            await self._place.write(EXPORTED, name, content)
        except self._place.failures as error:
            return NotSent(f"{name} could not be written: {error}")
        try:
            await self._place.publish(self._folder, name)
        except self._place.failures as error:
            return Uncertain(f"whether {name} got its name is not known: {error}")
        return Applied(name)

    async def lookup(self, change: Change) -> LookedUp:
        name = file_name(change, self._ending)
        try:
            if await self._place.exists(self._folder, unfinished_name(name)):
                return Absent()
            is_out = await self._place.exists(EXPORTED, name)
        except self._place.failures as error:
            raise CheckFailed(f"the folder cannot be read: {error}") from None
        return Found(name) if is_out else Absent()
