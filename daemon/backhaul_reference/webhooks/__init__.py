"""Webhooks: signing and delivering recorded events."""
