"""Sends commands to the platform once, and resolves uncertain outcomes."""
