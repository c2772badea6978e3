"""Client of the store platform: calls, transport and payloads."""
