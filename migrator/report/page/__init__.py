"""The result of a run as one page of HTML for review: it needs nothing beside it, and no network."""
