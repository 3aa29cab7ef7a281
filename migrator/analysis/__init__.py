"""What a program is, and where each of its values stands: an abstract run of all of it, see run.py."""
