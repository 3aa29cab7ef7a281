"""What is known of the workers' shards of a batch: how many rows, of what weight, which come twice. Sends nothing."""
