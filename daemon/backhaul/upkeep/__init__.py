"""What keeps the database in shape: the search index, retention, forgetting."""
