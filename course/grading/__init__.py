"""Points for answers: each runs in a process of its own and is judged outside it."""
