"""JSON Schemas to hole types."""
