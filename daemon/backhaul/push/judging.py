"""From an answer to a verdict, reading back where the answer alone proves nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from backhaul.core.outcome import Outcome, Verdict, classify_refusal
from backhaul.errors import Unusable
from backhaul.shop import requests, wire
from backhaul.shop.client import ReadRefused
from backhaul.shop.transport import InDoubt, NotSent

if TYPE_CHECKING:
    from backhaul.shop.client import ShopClient
    from backhaul.shop.transport import Answer
    from backhaul.store.contract import Command


@dataclass(frozen=True, slots=True)
class Judged:
    """A verdict that needs no further look, with what proves it."""

    verdict: Verdict
    evidence: dict[str, Any] = field(default_factory=dict)


async def judge(command: Command, answer: Answer, client: ShopClient) -> Judged:
    """Decide what an answer proves. Reads the object where the table asks for it."""
    if answer.ok:
        return _judge_success(command, answer)
    verdict = classify_refusal(
        command.kind, answer.status, answer.problem(), answer.retry_after_seconds()
    )
    if verdict.outcome is Outcome.CHECK_ABSENT:
        return Judged(await _check_absent(command, verdict, client))
    if verdict.outcome is Outcome.CHECK_EFFECT:
        return await _check_effect(command, verdict, client)
    return Judged(verdict)


def _judge_success(command: Command, answer: Answer) -> Judged:
    try:
        proof = requests.evidence(command, answer.json())
    except Unusable as error:
        reason = f"{answer.status}, but {error}"
        return Judged(Verdict(Outcome.UNCERTAIN, reason))
    return Judged(Verdict(Outcome.CONFIRMED, str(answer.status)), proof)


def _object_path(command: Command) -> str:
    kind = "products" if command.kind == "adjust" else "orders"
    return f"/{kind}/{command.target}"


async def _check_absent(
    command: Command, verdict: Verdict, client: ShopClient
) -> Verdict:
    """404 is final only if the object is 404 too while lists can be read."""
    path = _object_path(command)
    try:
        answer = await client.answer_of(path)
        absent = answer.status == 404 and await client.opens()
    except (NotSent, InDoubt) as error:
        return Verdict(Outcome.STOPPED, f"{verdict.reason}; reading back: {error}")
    if absent:
        return Verdict(Outcome.REJECTED, f"{verdict.reason}; {path} does not exist")
    return Verdict(Outcome.STOPPED, f"{verdict.reason}, yet {path} is there")


async def _check_effect(
    command: Command, verdict: Verdict, client: ShopClient
) -> Judged:
    """409: applied if the order shows the same effect, else a person decides."""
    if command.kind == "adjust":
        return Judged(Verdict(Outcome.PARKED, verdict.reason))
    try:
        data = await client.read(_object_path(command))
        order = wire.order(data)
    except (NotSent, InDoubt, ReadRefused, Unusable) as error:
        reason = f"{verdict.reason}; reading back: {error}"
        return Judged(Verdict(Outcome.THROTTLED, reason))
    if requests.shows(command, order, data):
        proof = requests.order_evidence(order)
        reason = f"{verdict.reason}; the order shows the same effect"
        return Judged(Verdict(Outcome.CONFIRMED, reason), proof)
    reason = f"{verdict.reason}; the order shows something else"
    return Judged(Verdict(Outcome.PARKED, reason))
