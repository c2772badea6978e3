"""Outbound commands: planned, sent, and resolved where the outcome is unknown."""
