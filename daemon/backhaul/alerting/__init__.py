"""What needs a person, told to one: once when it begins, and once when it is over."""
