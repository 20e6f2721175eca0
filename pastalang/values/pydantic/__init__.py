"""The conversion of Pydantic models to hole types, and back."""
