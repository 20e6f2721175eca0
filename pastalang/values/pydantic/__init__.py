"""Pydantic models to hole types, and back."""
