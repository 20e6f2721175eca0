"""The checker: names, types and rules of a program."""
