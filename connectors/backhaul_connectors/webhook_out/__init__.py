"""Forwards the store's changes to any URL as signed webhooks."""

from backhaul_connectors.webhook_out.connector import WebhookOut

__all__ = ["WebhookOut"]
