"""What takes part in a training step, in `fit` or in a loop: optimizers, losses, layers, metrics, callbacks."""
