"""Where and how calls of the runtime are put in: what several rules have in common."""
