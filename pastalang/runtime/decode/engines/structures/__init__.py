"""Values that nest: a grammar says which tokens may come, and what it is slow at or cannot say stands beside it."""
