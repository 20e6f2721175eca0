"""The `pasta` command."""
