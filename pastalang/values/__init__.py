"""Values of hole types, and the conversion of hole types to and from Pydantic and JSON Schema."""
