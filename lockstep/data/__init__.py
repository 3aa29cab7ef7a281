"""Each worker its shard of the data: the cuts, and the order of the samples that all must have alike."""
