"""The same weights on all workers: sent at the start and after a restore, and compared now and then."""
