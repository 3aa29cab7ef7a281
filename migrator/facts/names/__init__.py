"""Which public names of libraries mean what."""
