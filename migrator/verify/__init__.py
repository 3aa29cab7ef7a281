"""`migrate verify`: run a script in one process and, migrated, on several, and compare step by step."""
