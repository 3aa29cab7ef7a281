"""A script as bytes, text and tree, and where each node stands."""
