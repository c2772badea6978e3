"""A lookup proves absence only when no request can be in progress."""

from __future__ import annotations

from backhaul_sdk import Absent, Found, Unknown
from backhaul_sdk.calls import LateArrivals


class System:
    """Finds what it is told to, one after the other; a look takes `seconds`."""

    def __init__(self, *finds: Absent | Found | Unknown, seconds: float) -> None:
        self.finds = list(finds)
        self.seconds = seconds
        self.now = 100.0

    def clock(self) -> float:
        return self.now

    async def look(self) -> Absent | Found | Unknown:
        self.now += self.seconds
        return self.finds.pop(0)


async def test_a_lookup_that_began_too_early_proves_no_absence() -> None:
    system = System(Absent(), Found("1"), seconds=30)
    late = LateArrivals(20, system.clock)
    late.request_may_run()
    assert await late.lookup(system.look) == Found("1")


async def test_without_a_request_in_flight_one_lookup_is_enough() -> None:
    system = System(Absent(), seconds=30)
    late = LateArrivals(20, system.clock)
    assert await late.lookup(system.look) == Absent()


async def test_a_found_or_unknown_change_is_not_waited_for() -> None:
    for found in (Found("1"), Unknown("who knows")):
        system = System(found, seconds=0)
        late = LateArrivals(600, system.clock)
        late.request_may_run()
        assert await late.lookup(system.look) == found
