"""Barcode scanners and other devices that send what they read."""

from backhaul_connectors.scanner.connector import Scanner

__all__ = ["Scanner"]
