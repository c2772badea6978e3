"""Deliveries: change notifications to connectors."""
