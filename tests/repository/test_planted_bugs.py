"""The bugs that the simulation and the fault tests plant still match the code."""

from __future__ import annotations

import ast

import pytest

from faults import postgres_bugs
from repository.tree import read
from simulation import bugs


@pytest.mark.parametrize(
    "bug", [bugs.NO_BUG, *bugs.BUGS, *postgres_bugs.BUGS], ids=lambda bug: bug.name
)
def test_a_bug_can_be_planted(bug: bugs.Bug) -> None:
    """Otherwise a change of the code would only be noticed by the long runs."""
    ast.parse(bug.planted_in(read(bug.file)))
