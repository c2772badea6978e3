"""What the running parts share: the loop that each runs, and their signals."""
