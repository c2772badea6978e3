"""CSV, JSON and spreadsheet files in a folder, a bucket or a mailbox."""

from backhaul_connectors.file_drop.connector import FileDrop

__all__ = ["FileDrop"]
