"""What a script writes, and reads again."""
