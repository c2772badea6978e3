"""CSV files that are put into a local folder."""

from backhaul_connectors.file_drop.connector import FileDrop

__all__ = ["FileDrop"]
