"""The store's families: one SQL text for every engine."""
