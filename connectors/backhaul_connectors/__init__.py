"""The connectors that ship with Backhaul, one folder for each."""
