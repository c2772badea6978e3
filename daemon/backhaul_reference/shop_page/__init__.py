"""The shop's own pages: a browser's view of the storefront API."""
