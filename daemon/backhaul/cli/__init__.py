"""Command line: one module per command or noun."""
