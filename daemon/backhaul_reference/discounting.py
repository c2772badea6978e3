"""The arithmetic of discounts, in minor units."""

from collections.abc import Sequence
from dataclasses import dataclass

HUNDRED_PERCENT = 100_00


@dataclass(frozen=True, slots=True)
class Terms:
    """What a discount gives: hundredths of a percent, minor units, or free freight."""

    type: str
    value: int


def goods_off(terms: Terms, subtotal: int) -> int:
    """What is taken off the goods, rounded half up, never more than they cost."""
    if terms.type == "PERCENTAGE":
        rounded = (2 * subtotal * terms.value + HUNDRED_PERCENT) // (
            2 * HUNDRED_PERCENT
        )
        return min(rounded, subtotal)
    return min(terms.value, subtotal) if terms.type == "FIXED_AMOUNT" else 0


def freight_off(terms: Terms, freight: int) -> int:
    return freight if terms.type == "FREE_SHIPPING" else 0


def split(amount: int, weights: Sequence[int]) -> list[int]:
    """Share `amount` out in proportion, by largest remainder; sums to it exactly.

    No share is above its weight as long as `amount` is not above their sum.
    """
    whole = sum(weights)
    if whole == 0:
        return [0] * len(weights)
    shares = [amount * weight // whole for weight in weights]
    by_remainder = sorted(
        range(len(weights)), key=lambda n: amount * weights[n] % whole, reverse=True
    )
    for n in by_remainder[: amount - sum(shares)]:
        shares[n] += 1
    return shares
