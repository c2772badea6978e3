"""The dashboard: what the merchant sees of a store, as pages."""
