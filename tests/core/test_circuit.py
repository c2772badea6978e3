"""The circuit: what waits after how many failures, and what a probe opens."""

from __future__ import annotations

from backhaul.core.circuit import FAILURES_TO_OPEN, Circuit


def standing(circuit: Circuit) -> tuple[bool, bool]:
    return circuit.half_open, circuit.open


def failing() -> Circuit:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN):
        assert standing(circuit) == (False, False)
        circuit.failed()
    return circuit


def test_so_many_failures_open_it() -> None:
    assert standing(failing()) == (False, True)


def test_only_failures_in_a_row_count() -> None:
    circuit = Circuit()
    for _ in range(FAILURES_TO_OPEN * 2):
        circuit.failed()
        circuit.answered()
    assert standing(circuit) == (False, False)


def test_a_probe_lets_one_command_try() -> None:
    circuit = failing()
    circuit.probed()
    assert standing(circuit) == (True, False)
    circuit.failed()
    assert standing(circuit) == (False, True)
    circuit.probed()
    circuit.answered()
    assert standing(circuit) == (False, False)


def test_a_probe_of_what_does_not_fail_changes_nothing() -> None:
    circuit = Circuit()
    circuit.failed()
    circuit.probed()
    assert standing(circuit) == (False, False)
