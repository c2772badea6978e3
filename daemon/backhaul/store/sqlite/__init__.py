"""The store in one SQLite file: one writer thread, readers apart."""
