"""The mirror of the store: its rows, how they are written, looked up and compared."""
