"""What an expression may be, and which of the script's objects it is."""
