"""Where the exercises were before version 0.2."""

raise ImportError("The exercises have moved: from bookkit.exercises import check")
