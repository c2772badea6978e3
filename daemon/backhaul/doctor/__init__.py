"""Checks of an installation, each with its fix."""
