"""Health checks of an installation, each with a fix; terms: docs/glossary.md."""
