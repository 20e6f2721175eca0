"""Policies: each turns one kind of program part into segments and branches."""
