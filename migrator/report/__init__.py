"""What a run tells its user, one module for each form."""
