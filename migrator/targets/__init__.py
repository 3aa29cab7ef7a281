"""The APIs that a migrated script can be written against, one module each."""
