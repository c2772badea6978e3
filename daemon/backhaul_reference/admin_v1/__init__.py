"""The keyed API, version 1: what back offices use."""
