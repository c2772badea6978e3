"""The engine of PostgreSQL."""
