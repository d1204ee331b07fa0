"""The course "Your Transformer": pieces and milestones on the student's own model."""
