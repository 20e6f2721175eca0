"""Who needs whom: the dependency graph of a plan."""
