"""The circuit: what waits after how many failures, and what a probe opens."""

from __future__ import annotations

import pytest

from backhaul.core.circuit import FAILURES_TO_OPEN, Circuit


def failing(*, command: bool) -> Circuit:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN):
        assert not circuit.commands_wait
        circuit.failed(command=command)
    return circuit


def test_failing_commands_leave_the_reads_alone() -> None:
    circuit = failing(command=True)
    assert circuit.commands_wait
    assert not circuit.reads_wait


def test_failing_reads_stop_everything() -> None:
    circuit = failing(command=False)
    assert circuit.commands_wait
    assert circuit.reads_wait


def test_only_failures_in_a_row_count() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN * 2):
        circuit.failed(command=True)
        circuit.answered(command=True)
    assert not circuit.commands_wait


def test_reads_that_work_do_not_excuse_failing_commands() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN):
        circuit.failed(command=True)
        circuit.answered(command=False)
    assert circuit.commands_wait


def standing(circuit: Circuit) -> tuple[bool, bool]:
    return circuit.half_open, circuit.commands_wait


def test_a_probe_lets_one_command_try() -> None:
    circuit = failing(command=True)
    circuit.probed()
    assert standing(circuit) == (True, False)
    circuit.failed(command=True)
    assert standing(circuit) == (False, True)
    circuit.probed()
    circuit.answered(command=True)
    assert standing(circuit) == (False, False)


@pytest.mark.parametrize("command", [True, False])
def test_a_probe_of_what_does_not_fail_changes_nothing(command: bool) -> None:
    circuit = Circuit()
    circuit.failed(command=command)
    circuit.probed()
    assert not circuit.half_open
    assert not circuit.commands_wait
