"""After random sequences of requests, a store agrees with the model."""

import asyncio
import os
import tempfile
from collections.abc import Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    precondition,
    rule,
    run_state_machine_as_test,
)

from backhaul_reference.platform.clock import SystemClock
from backhaul_reference.server import Environment
from reference_contract import agreement
from reference_contract.canonical import canonical
from reference_contract.walk import STEPS, Values, Walk, random_steps
from scenes.reference_shop import open_shop

LONG = os.environ.get("FAULTS") == "long"
EXAMPLES, LENGTH = (300, 50) if LONG else (30, 20)
WALKS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=LENGTH,
    deadline=None,
    database=None,
    derandomize=not LONG,
    # Shortening what fails takes minutes: the long form does.
    phases=[Phase.generate, Phase.shrink] if LONG else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)
SEEDS = range(20 if LONG else 4)
Step = Callable[..., None]


def step(name: str) -> Callable[[Step], Step]:
    """Draw every number of a step from its range."""
    drawn: Any = {key: st.integers(0, top) for key, top in STEPS[name].items()}
    decorator: Callable[[Step], Step] = rule(**drawn)
    return decorator


has_orders = precondition(lambda machine: bool(machine.walk.orders))


class ShopAndBooks(RuleBasedStateMachine):
    """A shop over HTTP beside its books, on a loop of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.runner, self.stack = asyncio.Runner(), AsyncExitStack()
        self.folder = tempfile.TemporaryDirectory()
        self.walk = self.runner.run(self.open())

    async def open(self) -> Walk:
        context = open_shop(Path(self.folder.name))
        walk = Walk(await self.stack.enter_async_context(context))
        await walk.begin()
        return walk

    def take(self, name: str, values: Values) -> None:
        self.runner.run(self.taken(name, values))

    async def taken(self, name: str, values: Values) -> None:
        await self.walk.step(name, values)
        agreement.check(self.walk, await self.walk.shop.state())

    @step("product")
    def product(self, **values: int) -> None:
        self.take("product", values)

    @step("order")
    def order(self, **values: int) -> None:
        self.take("order", values)

    @step("order")
    def order_more(self, **values: int) -> None:
        self.take("order", values)

    @has_orders
    @step("fulfill")
    def fulfill(self, **values: int) -> None:
        self.take("fulfill", values)

    @has_orders
    @step("cancel")
    def cancel(self, **values: int) -> None:
        self.take("cancel", values)

    @has_orders
    @step("confirm")
    def confirm(self, **values: int) -> None:
        self.take("confirm", values)

    @has_orders
    @step("pay")
    def pay(self, **values: int) -> None:
        self.take("pay", values)

    @has_orders
    @step("refund")
    def refund(self, **values: int) -> None:
        self.take("refund", values)

    @has_orders
    @step("report")
    def report(self, **values: int) -> None:
        self.take("report", values)

    @step("adjust")
    def adjust(self, **values: int) -> None:
        self.take("adjust", values)

    @step("set")
    def set_stock(self, **values: int) -> None:
        self.take("set", values)

    @step("delete")
    def delete(self, **values: int) -> None:
        self.take("delete", values)

    def teardown(self) -> None:
        self.runner.run(self.stack.aclose())
        self.runner.close()
        self.folder.cleanup()


@pytest.mark.faults
@pytest.mark.timeout(3600 if LONG else 600)
def test_the_shop_agrees_with_its_books() -> None:
    run_state_machine_as_test(ShopAndBooks, settings=WALKS)


def counting_world() -> Environment:
    """Real time, and ids that ascend within a millisecond: lines sort by them."""
    numbers = count(1)

    def counted(size: int) -> bytes:
        return (next(numbers) % 200 if size == 1 else next(numbers)).to_bytes(size)

    return Environment(SystemClock(), counted, lambda: 0.5)


async def walked(folder: Path, seed: int) -> list[Any]:
    """All answers of a walk, then the whole state."""
    async with open_shop(folder, world=counting_world()) as shop:
        walk = Walk(shop)
        await walk.begin()
        for name, values in random_steps(seed, 60):
            await walk.step(name, values)
            agreement.check(walk, await shop.state())
        state = await shop.state()
        answers = [[one.status, one.body] for one in walk.answers]
        return canonical([*answers, state])


@pytest.mark.faults
@pytest.mark.parametrize("seed", SEEDS)
async def test_two_shops_answer_alike(tmp_path: Path, seed: int) -> None:
    first, second = [await walked(tmp_path / name, seed) for name in ("a", "b")]
    for number, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one == other, number
