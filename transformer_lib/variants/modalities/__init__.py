"""Images, point clouds and graphs as sequences of vectors."""
