"""The import of JSON Schemas as hole types."""
