"""Reading the platform back: the mirror must not depend on webhooks alone."""
