"""The parts every surface shares: state, HTTP, webhooks, the v1 API."""
