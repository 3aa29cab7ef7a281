"""What is trained, and how: fits and updates, models, gradients, losses."""
