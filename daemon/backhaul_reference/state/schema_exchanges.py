"""What showing deliveries adds to the tables."""

EXCHANGES = """
ALTER TABLE delivery_attempt ADD COLUMN request_url TEXT;
ALTER TABLE delivery_attempt ADD COLUMN request_headers TEXT;
ALTER TABLE delivery_attempt ADD COLUMN response_headers TEXT;
ALTER TABLE delivery_attempt ADD COLUMN response_body BLOB;
ALTER TABLE delivery_attempt ADD COLUMN response_cut INTEGER;
"""
