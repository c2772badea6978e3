"""Captures webhook traffic to files and replays it."""
