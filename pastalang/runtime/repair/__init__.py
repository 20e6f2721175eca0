"""Decodes single fields again after validation."""
