"""Who failed where: what the workers know of each other's calls, and what one that fails tells the others."""
