"""Alerts operators when a problem begins and when it ends."""
