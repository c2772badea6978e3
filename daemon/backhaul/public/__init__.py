"""The listener that the platform and the back office call."""
