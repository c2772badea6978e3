"""Couriers: what they say of parcels, by webhook and by asking."""

from backhaul_connectors.courier.connector import Courier

__all__ = ["Courier"]
