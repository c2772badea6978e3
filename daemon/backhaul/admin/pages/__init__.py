"""The dashboard's pages, one module for each concern."""
