"""Logs and metrics of the daemon."""
