"""Lists, timelines and numbers for the command line and the dashboard."""
