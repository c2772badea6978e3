"""The HTTP API `/backhaul/v1` for people's own programs, on the admin listener."""
