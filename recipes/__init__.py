"""Recipes that make what the package ships. They run from a checkout and are not part of the wheel."""
