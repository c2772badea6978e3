"""Traffic as a file: what came in is captured, and played again."""
