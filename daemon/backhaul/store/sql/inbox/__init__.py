"""Inbound events: appended, folded, kept, exported and quarantined."""
