"""CSV, JSON and XLSX files in a local folder or on an SFTP server."""

from backhaul_connectors.file_drop.connector import FileDrop

__all__ = ["FileDrop"]
