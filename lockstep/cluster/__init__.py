"""Who is there: which launcher started this process, its place among the workers, and how they meet."""
