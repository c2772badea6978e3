"""Admin listener: dashboard, health, metrics and JSON API."""
