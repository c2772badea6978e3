"""Alerts operators when a problem begins and when it ends.

One list of all current problems is behind alerts, `backhaul status` and the dashboard.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from backhaul.alerting import operation_problems, work_problems
from backhaul.alerting.problem import Severity

if TYPE_CHECKING:
    from backhaul.alerting.problem import Facts, Problem
    from backhaul.store.operations import Alert


def find_problems(facts: Facts) -> list[Problem]:
    """Return all problems, the worst first."""
    found = [*operation_problems.find(facts), *work_problems.find(facts)]
    return sorted(found, key=lambda problem: [*Severity].index(problem.severity))


def find_alerts(facts: Facts) -> dict[str, Alert]:
    """Return an alert for each problem that raises one, by its key."""
    return {
        problem.key: problem.alert()
        for problem in find_problems(facts)
        if problem.raises_alert
    }
