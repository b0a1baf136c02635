"""Records, result logs or a table of the user's own to points. This room knows nothing of scaling."""
