"""What the daemon tells about itself: its log, and its numbers."""
