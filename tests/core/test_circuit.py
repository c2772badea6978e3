"""The circuit breaker: how many failures open it, and what a probe allows."""

from __future__ import annotations

from backhaul.core.backoff_and_circuit import FAILURES_TO_OPEN, Circuit


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
    circuit.probed(answered=True)
    assert standing(circuit) == (True, False)
    circuit.failed()
    assert standing(circuit) == (False, True)
    circuit.probed(answered=True)
    circuit.answered()
    assert standing(circuit) == (False, False)


def test_a_probe_that_fails_after_one_that_was_answered_shuts_it_again() -> None:
    """A probe reads several lists; the platform may refuse the first one."""
    circuit = failing()
    circuit.probed(answered=True)
    circuit.probed(answered=False)
    assert standing(circuit) == (False, True)
    assert circuit.reads_wait


def test_a_probe_of_a_working_platform_changes_nothing() -> None:
    circuit = Circuit()
    circuit.failed()
    circuit.probed(answered=True)
    assert standing(circuit) == (False, False)


def test_reads_that_fail_wait_only_where_commands_fail_too() -> None:
    circuit = Circuit()
    circuit.read(answered=False)
    assert not circuit.reads_wait


def test_reads_wait_for_a_probe_that_is_answered() -> None:
    circuit = failing()
    answers = [circuit.reads_wait]
    circuit.read(answered=False)
    answers.append(circuit.reads_wait)
    circuit.probed(answered=False)
    answers.append(circuit.reads_wait)
    circuit.probed(answered=True)
    answers.append(circuit.reads_wait)
    assert answers == [False, True, True, False]
