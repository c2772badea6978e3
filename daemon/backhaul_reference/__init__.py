"""Reference server: a complete, stateful implementation of the store platform."""
