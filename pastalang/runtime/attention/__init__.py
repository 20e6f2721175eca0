"""Who may see whom: view rows and steps come in, ordered visible cells and masks go out."""
