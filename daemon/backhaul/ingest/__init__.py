"""Receives webhooks, stores them in the inbox and applies them to the mirror."""
