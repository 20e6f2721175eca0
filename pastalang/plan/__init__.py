"""The plan: the only thing that crosses from the language to the runtime."""
