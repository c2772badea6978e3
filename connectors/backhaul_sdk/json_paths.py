"""Finds values in JSON documents by JMESPath expressions of the settings."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any

import jmespath
from jmespath.exceptions import JMESPathError
from pydantic import AfterValidator

from backhaul_sdk.fields import Unusable

if TYPE_CHECKING:
    from collections.abc import Sequence

_NAMES = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)


def _expression(text: str) -> str:
    try:
        jmespath.compile(text)
    except JMESPathError:
        raise ValueError(f"{text!r} is not a JMESPath expression") from None
    return text


Expression = Annotated[str, AfterValidator(_expression)]
"""A setting that selects a value."""


def find(expression: str, document: Any) -> Any:
    """Return the value at a path of a document; None if absent. Raises Unusable."""
    names = _names(expression)
    try:
        return _follow(names, document) if names else _compiled(expression)(document)
    except (JMESPathError, ArithmeticError, ValueError, TypeError) as error:
        raise Unusable(
            f"the JMESPath expression {expression} cannot be applied: {error}"
        ) from None


def _follow(names: Sequence[str], document: Any) -> Any:
    for name in names:
        if not isinstance(document, dict):
            return None
        document = document.get(name)
    return document


@lru_cache(maxsize=256)
def _names(expression: str) -> tuple[str, ...]:
    """Return the names of a plain path, which needs no JMESPath interpreter."""
    return tuple(expression.split(".")) if _NAMES.fullmatch(expression) else ()


@lru_cache(maxsize=256)
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression).search
