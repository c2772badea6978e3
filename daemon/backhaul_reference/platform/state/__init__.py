"""All state kept in SQLite: reads, views and transactions."""
