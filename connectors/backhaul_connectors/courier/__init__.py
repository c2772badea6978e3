"""Couriers: tracking events by webhook, and by polling the courier's API."""

from backhaul_connectors.courier.connector import Courier

__all__ = ["Courier"]
