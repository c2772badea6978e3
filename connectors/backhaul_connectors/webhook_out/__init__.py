"""Forwards the store's news to any URL, signed."""

from backhaul_connectors.webhook_out.connector import WebhookOut

__all__ = ["WebhookOut"]
