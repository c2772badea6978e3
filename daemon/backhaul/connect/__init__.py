"""Connectors: runs them, takes their records and delivers changes to them."""
