"""Reconciles the mirror with the platform: full, incremental and per object."""
