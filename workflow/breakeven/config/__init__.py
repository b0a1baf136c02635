"""What the user writes: studies and platforms, checked by pydantic models and expanded into specs."""
