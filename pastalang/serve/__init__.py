"""An HTTP server for an engine: the wire of OpenAI's clients, and programs as endpoints. Extra `[serve]`."""
