"""Signals: each handler is called at once, and the parts of a store wake each other."""

from __future__ import annotations

from backhaul.runtime.signals import Signal, StoreContext, StoreSignals
from scenes.clock import VirtualClock


def test_every_handler_is_called_in_order_before_emit_returns() -> None:
    signal, called = Signal[[str, int]](), list[tuple[str, str, int]]()
    signal.emit("nobody", 0)
    signal.connect(lambda name, n: called.append(("first", name, n)))
    signal.connect(
        lambda name, n: called.append(("second", name, n)),
        lambda name, n: called.append(("third", name, n)),
    )
    signal.emit("a", 1)
    assert called == [("first", "a", 1), ("second", "a", 1), ("third", "a", 1)]


def test_a_signal_may_emit_another() -> None:
    signal, called = Signal[[]](), list[None]()
    signal.connect(lambda: called.append(None))
    other = Signal[[]]()
    signal.connect(other.emit)
    other.connect(lambda: called.append(None))
    signal.emit()
    assert len(called) == 2


async def test_no_two_stores_share_a_signal() -> None:
    contexts = [StoreContext(n, VirtualClock(), lambda: 0.5) for n in ("a", "b")]
    called: list[str] = []
    for context in contexts:
        context.signals.command_changed.connect(
            lambda name=context.name: called.append(name)  # type: ignore[misc]
        )
    contexts[0].signals.command_changed.emit()
    assert called == ["a"]


def test_no_two_signals_of_a_store_are_one() -> None:
    signals = vars(StoreSignals()).values()
    assert len({id(signal) for signal in signals}) == len(signals)
