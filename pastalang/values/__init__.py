"""Between hole types and the outside world: Pydantic, JSON Schema, and typed values."""
