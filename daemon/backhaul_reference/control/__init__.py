"""The control API: the merchant's dashboard, as JSON."""
