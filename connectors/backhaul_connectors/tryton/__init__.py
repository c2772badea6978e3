"""The ERP Tryton: stock and shipments out of it, orders into it."""

from backhaul_connectors.tryton.connector import Tryton

__all__ = ["Tryton"]
