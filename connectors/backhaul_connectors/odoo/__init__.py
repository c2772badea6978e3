"""The ERP Odoo: stock and deliveries out of it, orders into it."""

from backhaul_connectors.odoo.connector import Odoo

__all__ = ["Odoo"]
