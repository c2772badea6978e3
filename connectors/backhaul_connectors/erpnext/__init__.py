"""The ERP ERPNext: stock and delivery notes out of it, orders into it."""

from backhaul_connectors.erpnext.connector import ErpNext

__all__ = ["ErpNext"]
