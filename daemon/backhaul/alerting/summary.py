"""Problems at a glance: equal ones together, the worst first."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from backhaul.alerting.problem import LISTS, Severity

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from backhaul.alerting.problem import Problem

PAGES = {
    "incident": "/incidents",
    "parked": "/commands?state=parked",
    "unreadable": "/quarantine",
}
"""The page of the dashboard that lists all problems of a kind, if there is one."""


class ProblemGroup(Struct, frozen=True):
    """Problems of one kind with the same consequence, in the order of their list."""

    problems: Sequence[Problem]

    @property
    def first(self) -> Problem:
        """The problem that a group of one consists of."""
        return self.problems[0]

    @property
    def is_urgent(self) -> bool:
        """Whether a person must act now; other problems can wait."""
        return self.first.severity is not Severity.WARN

    @property
    def text(self) -> str:
        """What is wrong, without the object of `subject`."""
        first, number = self.first, len(self.problems)
        if first.several and number > 1:
            return first.several.text.format(n=f"{number:,}")
        return first.short or first.text

    @property
    def consequence(self) -> str:
        """What happens until somebody acts; empty if that is unknown."""
        first, number = self.first, len(self.problems)
        if first.several and number > 1:
            return first.several.consequence.format(n=f"{number:,}")
        return first.consequence

    @property
    def link(self) -> str:
        """The page of the dashboard where an operator acts."""
        if len(self.problems) > 1:
            return PAGES.get(self.first.kind, self.first.link)
        return self.first.link

    @property
    def action(self) -> str:
        """The words on the button that leads to that page."""
        number = len(self.problems)
        return f"Show all {number:,}" if number > 1 else self.first.action

    @property
    def command(self) -> str:
        """The command to type."""
        if self.problems[1:]:
            return LISTS.get(self.first.kind, self.first.command)
        return self.first.command


def group_problems(found: Iterable[Problem]) -> list[ProblemGroup]:
    """Return the problems in groups, in the order of each group's first problem."""
    groups: dict[object, list[Problem]] = {}
    for problem in found:
        key = (problem.kind, problem.several) if problem.several else problem.key
        groups.setdefault(key, []).append(problem)
    return [ProblemGroup(problems) for problems in groups.values()]
