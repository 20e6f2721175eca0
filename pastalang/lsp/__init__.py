"""What editors ask about programs: `language` answers, and `server` speaks the protocol."""
