"""Constraints: which tokens a hole may take next, and how its value ends within the limit."""
