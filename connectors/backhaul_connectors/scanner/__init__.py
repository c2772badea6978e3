"""Hand scanners and other devices that post what they read."""

from backhaul_connectors.scanner.connector import Scanner

__all__ = ["Scanner"]
