"""The listener for people and monitoring."""
