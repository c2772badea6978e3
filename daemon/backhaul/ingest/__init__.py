"""The way in: receive, keep, and fold into the mirror."""
