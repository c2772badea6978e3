"""Signs and delivers webhooks."""
