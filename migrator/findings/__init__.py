"""What a user gets to read: findings of the rules, and what the user's own comments make of them."""
