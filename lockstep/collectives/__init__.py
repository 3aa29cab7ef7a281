"""What is exchanged: values between all workers, through the backend that this process has joined."""
