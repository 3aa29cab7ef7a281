"""The rewrite engine behind the command `migrate`: source, facts, rules, edits, new source."""
