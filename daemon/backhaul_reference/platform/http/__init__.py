"""The HTTP layer that every surface shares."""
