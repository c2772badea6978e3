"""What may keep an installation from working, looked for one thing at a time."""
