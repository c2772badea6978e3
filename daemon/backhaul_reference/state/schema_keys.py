"""What keys that end, and knowing which are in use, add to the tables."""

KEYS = """
ALTER TABLE api_key ADD COLUMN expires_ms INTEGER;
ALTER TABLE api_key ADD COLUMN used_ms INTEGER;
"""
