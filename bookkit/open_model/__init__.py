"""The open model: every number of one translation, and the rule that made it."""
