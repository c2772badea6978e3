"""State: everything kept in SQLite."""
