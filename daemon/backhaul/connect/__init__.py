"""The back office's side: connectors, their records, and what these refer to."""
