"""The control API: what the dashboard does, as JSON, and test controls."""
