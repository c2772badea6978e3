"""Where everything is kept: a contract of domain verbs, and its backends."""
