"""Sync daemon between an online store and a back office."""
