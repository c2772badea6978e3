"""Conformance tests of the store: an engine passes them all, or it is not one.

They use the `Store` protocol only. Each module has the tests of one family, in a class
that an engine's test file inherits:

    class TestCommands(CommandsConformance):
        pass

The file gives three fixtures: `clock` (`contract.MovableClock`), `store`, a new store
that is started and works with this clock, and `open_store` (`contract.OpenStore`).

`pytest.register_assert_rewrite("backhaul.store.testing")` in a conftest.py lets a
failure show the values that differ.
"""
