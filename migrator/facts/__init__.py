"""What a script is: its models, optimizers, gradients, datasets, arrays and files, as values that rules read."""
