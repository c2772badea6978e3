"""A world from one seed: a platform, a daemon, a back office, and all that goes wrong.

It runs for a while in bad weather; then every fault is lifted, and what the platform's
own books say must be what was asked for, once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backhaul.core.clock import to_text
from backhaul.demo.back_office_checks import COUNT
from backhaul.demo.comparison import compare_sides
from backhaul.demo.daemon_rows import Cause, damage, read_daemon_rows
from backhaul.store.filters import Filter
from backhaul_reference.platform.state import order_payments
from scenes.stored import bodies, lists
from simulation.program import INSTANCE, STORE, Program

if TYPE_CHECKING:
    import random
    from collections.abc import Callable
    from pathlib import Path

    from simulation.clock import SimulatedClock
    from simulation.loop import VirtualLoop
    from simulation.platform import Shop
    from simulation.weather import Network, Postman, Weather


STORM_SECONDS = 240.0
PATIENCE_SECONDS = 3_600.0
LOOK_SECONDS = 30.0
COUNTS = os.environ.get("COUNTS", "")
"""Whether back offices count as well; where it is not said, every second does."""
MOMENTS = 600
"""Within how many commits and requests the deaths lie: a storm has some more."""
SENDS = 6
"""Within how many commands that leave those deaths lie that come as one leaves."""
ADDRESS = {"address1": "12 MG Road", "city": "Pune", "country": "IN", "zip": "411001"}


@dataclass(slots=True)
class Report:
    """What became of a seed."""

    seed: int
    findings: list[str]
    digest: str
    trace: list[str]
    parked: int = 0
    lives: int = 0
    commands: int = 0


@dataclass(slots=True)
class World:
    """Everything there is."""

    seed: int
    loop: VirtualLoop
    folder: Path
    clock: SimulatedClock
    chance: random.Random
    shop: Shop
    weather: Weather
    network: Network
    program: Program
    postman: Postman
    trace: list[str]
    deadly: list[int] = field(default_factory=list)
    moments: int = 0
    deadly_sends: list[int] = field(default_factory=list)
    sends: int = 0
    causes: list[Cause] = field(default_factory=list)
    papers: list[tuple[str, str]] = field(default_factory=list)
    """The files that the back office handed in, with their names."""
    kept_news: int = 0
    articles: list[dict[str, Any]] = field(default_factory=list)
    orders: list[dict[str, Any]] = field(default_factory=list)
    counts: int = 0
    storm: bool = True

    def note(self, text: str) -> None:
        self.trace.append(f"{self.loop.seconds:.3f} {text}")
        self.moment(text)

    def moment(self, what: str) -> bool:
        """Count what happens; some moments are the daemon's last."""
        self.moments += 1
        self.sends += what.startswith("POST ")
        is_last = _comes(self.deadly, self.moments)
        is_last = _comes(self.deadly_sends, self.sends) or is_last
        if not (is_last and self.storm and self.program.alive):
            return False
        self.trace.append(f"{self.loop.seconds:.3f} killed {what}")
        self.program.kill()
        self.network.keep(self._start_again())
        return True

    def no_moment(self) -> None:
        """Do not count the last one: nothing was at stake."""
        self.moments -= 1

    def give_up(self) -> None:
        self.note("gave up")
        self.network.keep(self._start_again())

    async def _start_again(self) -> None:
        await asyncio.sleep(self.chance.uniform(0.5, 20.0))
        if not self.program.alive:
            self.note("starts")
            self.program.start()

    # What people do.

    async def buy(self) -> None:
        """Somebody orders; later the back office does something about it."""
        product = self.chance.choice(self.articles)
        variant = self.chance.choice(product["variants"])
        quantity = self.chance.randint(1, 3)
        who = self.chance.randrange(4)
        item = {
            "productId": product["id"],
            "variantId": variant["id"],
            "quantity": quantity,
        }
        placed = await self.shop.shopper(
            "POST",
            "/orders",
            {
                "paymentMethod": "COD",
                "items": [item],
                "customer": {"name": f"C{who}", "email": f"c{who}@example.com"},
                "shippingAddress": ADDRESS,
            },
        )
        order = placed["data"]
        self.orders.append(order)
        self.note(f"bought #{order['number']}")
        await asyncio.sleep(self.chance.uniform(0.0, 30.0))
        self.say(order)

    def say(self, order: dict[str, Any]) -> None:
        fate = self.chance.random()
        number, tracking = order["number"], f"T{order['number']}"
        if fate < 0.55:
            self.hand_in(
                "fulfillments",
                "order,tracking_company,tracking_number",
                f"{number},DHL,{tracking}",
                lambda locator: Cause(
                    kind="fulfill",
                    instance=INSTANCE,
                    locator=locator,
                    order_id=order["id"],
                    tracking_company="DHL",
                    tracking_number=tracking,
                ),
            )
        elif fate < 0.85:
            self.hand_in(
                "cancellations",
                "order,restock,reason",
                f"{number},yes,customer",
                lambda locator: Cause(
                    kind="cancel",
                    instance=INSTANCE,
                    locator=locator,
                    order_id=order["id"],
                ),
            )

    async def correct(self) -> None:
        """Somebody finds some more of an article, or fewer."""
        article = f"T{self.chance.randrange(2)}-{self.chance.choice('SM')}"
        # No two alike: the same file twice is the same file.
        delta = self.chance.choice((-1, 1)) * (len(self.papers) + 1)
        self.hand_in(
            "stock-deltas",
            "sku,adjustment,reason",
            f"{article},{delta},STOCK_COUNT",
            lambda locator: Cause(
                kind="adjust",
                instance=INSTANCE,
                locator=locator,
                sku=article,
                delta=delta,
            ),
        )

    async def count(self) -> None:
        """Somebody counts an article that nobody corrects otherwise."""
        article = f"T2-{self.chance.choice('SM')}"
        levels = {level["sku"]: level["stock"] for level in self.shop.state()["levels"]}
        quantity = levels[article] + self.chance.randint(-6, 9)
        counted_at = to_text(self.clock.now())
        self.hand_in(
            "stock-levels",
            "sku,quantity,as_of",
            f"{article},{quantity},{counted_at}",
            lambda locator: Cause(
                kind=COUNT,
                instance=INSTANCE,
                locator=locator,
                sku=article,
                quantity=quantity,
                counted_at=counted_at,
            ),
        )

    async def tidy(self) -> None:
        """The merchant changes something by hand."""
        if self.orders and self.chance.random() < 0.6:
            order = self.chance.choice(self.orders)
            state = {o["id"]: o for o in self.shop.state()["orders"]}[order["id"]]
            if state["financialStatus"] == "PENDING" and not state["cancellation"]:
                await self.shop.work(order_payments.mark_paid, order["id"])
            return
        product = self.chance.choice(self.articles)
        title = {"title": f"Thing {self.chance.randrange(1000)}"}
        await self.shop.v1("PUT", f"/products/{product['id']}", title)

    async def list_article(self) -> None:
        """A product comes, and goes again."""
        body = {"title": f"Brief {self.chance.randrange(1000)}", "price": "5.00"}
        made = (await self.shop.v1("POST", "/products", body | {"stock": 0}))["data"]
        await asyncio.sleep(self.chance.uniform(1.0, 80.0))
        await self.shop.v1("DELETE", f"/products/{made['id']}")

    def hand_in(
        self, kind: str, head: str, row: str, cause: Callable[[str], Cause]
    ) -> None:
        name = f"{kind}-{len(self.papers) + 1:04}.csv"
        self.papers.append((name, f"{head}\n{row}\n"))
        self.causes.append(cause(f"{name}:2"))
        self.note(f"handed in {name} {row}")
        self._put(name, f"{head}\n{row}\n")

    def _put(self, name: str, text: str) -> None:
        file = self.folder / "drop" / name
        scratch = file.with_suffix(".tmp")
        scratch.write_text(text)
        moment = self.clock.monotonic()
        os.utime(scratch, (moment, moment))
        scratch.rename(file)

    # What goes wrong.

    async def lock(self) -> None:
        self.note("database busy")
        self.program.lock()
        await asyncio.sleep(self.chance.uniform(0.5, 15.0))
        self.program.unlock()

    async def fill(self) -> None:
        self.note("disk full")
        self.program.fill()
        await asyncio.sleep(self.chance.uniform(0.5, 20.0))
        self.program.make_room()

    async def set_clock(self) -> None:
        jump = self.chance.choice((-86_400.0, -3_600.0, -300.0, 300.0, 3_600.0))
        # What was counted in the future is rightly left to a person.
        jump = abs(jump) if self.counts else jump
        self.note(f"clock set by {jump}")
        self.clock.ahead_seconds += jump

    async def terminate(self) -> None:
        self.note("told to stop")
        await self.program.stop()
        await self._start_again()

    async def back_up(self) -> None:
        """Back up now, and restore it later."""
        if not self.program.database.exists():
            return
        copy = self.folder / "backup.db"
        self.program.back_up(copy)
        self.kept_news = len(self.postman.acknowledged)
        self.note("backed up")
        await asyncio.sleep(self.chance.uniform(10.0, 90.0))
        self.program.kill()
        # A copy made by hand cannot know of what is under way yet: docs/restoring.md.
        by_hand = not self.network.flying and self.chance.random() < 0.5
        self.note("restored by hand" if by_hand else "restored")
        self.program.restore(copy, by_hand=by_hand)
        del self.postman.acknowledged[self.kept_news :]
        # Which of them the copy knows, nobody knows: all are handed in again.
        for name, text in self.papers:
            (self.folder / "drop" / "archive" / name).unlink(missing_ok=True)
            self._put(name, text)
        await self._start_again()

    async def worsen(self) -> None:
        self.weather.trouble = self.chance.choice((0.05, 0.2, 0.5, 0.9))
        self.note(f"trouble {self.weather.trouble}")
        await asyncio.sleep(self.chance.uniform(5.0, 60.0))
        self.weather.trouble = 0.1

    # How it goes.

    def plan(self) -> None:
        """Decide what happens when."""
        draw = self.chance
        self.weather.trouble = draw.choice((0.0, 0.1, 0.3))
        self.weather.losing = draw.choice((0.0, 0.1, 0.5))
        self.weather.disorder = draw.choice((0.0, 0.3))
        deaths = draw.choice((0, 1, 2, 4))
        sends = sum(draw.random() < 0.4 for _ in range(deaths))
        self.deadly_sends = sorted(draw.randint(1, SENDS) for _ in range(sends))
        moments = (draw.randrange(5, MOMENTS) for _ in range(deaths - sends))
        self.deadly = sorted(moments)
        acts: list[Callable[[], Any]] = [self.buy] * draw.randint(2, 6)
        acts += [self.correct] * draw.randint(1, 4) + [self.tidy] * 2
        self.counts = draw.randint(0, 3) if counts_in(self.seed) else 0
        acts += [self.count] * self.counts
        rare = (self.lock, self.fill, self.set_clock, self.worsen, self.terminate)
        acts += [act for act in rare if draw.random() < 0.3]
        acts += [self.list_article] if draw.random() < 0.3 else []
        acts += [self.back_up] if draw.random() < 0.2 else []
        for act in acts:
            when = draw.uniform(0.0, STORM_SECONDS * 0.6)
            self.network.keep(_at(when, act))

    async def run(self, patience_seconds: float) -> Report:
        self.plan()
        self.articles = self.shop.state()["products"]
        self.program.start()
        await asyncio.sleep(STORM_SECONDS)
        await self.calm_down()
        findings = await self.settle(patience_seconds)
        await self.program.stop()
        findings += damage(self.program.database)
        with lists(self.program.database) as reader:
            parked = reader.count_commands(Filter("parked"))
        digest = hashlib.sha256("\n".join([*self.trace, *findings]).encode())
        return Report(
            self.seed,
            findings,
            digest.hexdigest()[:16],
            self.trace,
            parked,
            self.program.lives,
            len(self.causes),
        )

    async def calm_down(self) -> None:
        self.storm = False
        self.weather.trouble = self.weather.losing = self.weather.disorder = 0.0
        self.program.unlock()
        self.program.make_room()
        while self.network.on_its_way:
            done, _ = await asyncio.wait(list(self.network.on_its_way), timeout=900)
            if not done:
                raise AssertionError(self.network.on_its_way)
        if self.network.mishaps:
            raise self.network.mishaps[0]
        if not self.program.alive:
            self.program.start()
        self.note("calm")

    async def settle(self, patience_seconds: float) -> list[str]:
        """Wait until all is well, for as long as a person would; tell what is not."""
        end = self.loop.seconds + patience_seconds
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            findings = self.findings()
            if not findings or self.loop.seconds > end or self.program.deaths:
                return findings

    def findings(self) -> list[str]:
        if self.program.deaths:
            return list(self.program.deaths)
        if still := self._open():
            return [f"{still} commands or records are open"]
        books = read_daemon_rows(self.program.database, STORE, "bench")
        ledger = compare_sides(self.shop.state(), books, self.causes)
        found = [str(finding) for finding in ledger.findings]
        return found + self._unkept()

    def _open(self) -> int:
        """Count the commands and records whose outcome is still to come."""
        with lists(self.program.database) as reader:
            found = reader.counts()
        states = ("planned", "sending", "uncertain")
        return found.waiting_records + sum(found.commands.get(s, 0) for s in states)

    def _unkept(self) -> list[str]:
        kept = set(bodies(self.program.database))
        return [
            f"lost: acknowledged news {json.loads(body)['sequence']}"
            for body in self.postman.acknowledged
            if body not in kept
        ]


def _comes(deadly: list[int], reached: int) -> bool:
    """Tell whether the next of them is reached, and strike it off."""
    if not deadly or reached < deadly[0]:
        return False
    deadly.pop(0)
    return True


def counts_in(seed: int) -> bool:
    """Tell whether the back office of a world counts."""
    return COUNTS == "yes" if COUNTS else seed % 2 == 0


async def _at(when: float, act: Callable[[], Any]) -> None:
    await asyncio.sleep(when)
    await act()
