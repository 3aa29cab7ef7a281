"""What is trained on, and where each worker takes its share of it."""
