"""Builds the daemon from its parts, starts it and stops it."""
