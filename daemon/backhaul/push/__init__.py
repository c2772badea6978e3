"""The way out: commands are sent once, and what is not proved is never guessed."""
