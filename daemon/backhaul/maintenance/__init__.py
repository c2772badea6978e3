"""Background upkeep: backups, retention, search index, erasure, samples."""
