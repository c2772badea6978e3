"""The merchant's dashboard, as HTML pages."""
