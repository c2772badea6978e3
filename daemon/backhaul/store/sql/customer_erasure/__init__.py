"""Finds a customer's personal data, and erases it."""
