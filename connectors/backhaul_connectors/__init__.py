"""The connectors that ship with Backhaul, found through entry points."""
