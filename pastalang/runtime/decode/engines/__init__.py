"""The engines behind the guide protocol, one kind of value each."""
