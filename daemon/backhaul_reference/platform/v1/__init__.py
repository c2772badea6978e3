"""The v1 API with API keys, used by back offices."""
