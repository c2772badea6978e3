"""The store platform as its client sees it: calls, transport and payloads."""
