"""Records from connectors: kept, matched, and compared with earlier ones."""
