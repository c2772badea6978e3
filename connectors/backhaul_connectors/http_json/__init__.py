"""Any system with a JSON API over HTTP: reads its lists, sends it changes."""

from backhaul_connectors.http_json.connector import HttpJson

__all__ = ["HttpJson"]
