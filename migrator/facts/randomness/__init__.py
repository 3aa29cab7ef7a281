"""Where random numbers come from."""
