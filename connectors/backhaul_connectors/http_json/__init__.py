"""Any system with a JSON interface over HTTP: its lists in, the store's news out."""

from backhaul_connectors.http_json.connector import HttpJson

__all__ = ["HttpJson"]
