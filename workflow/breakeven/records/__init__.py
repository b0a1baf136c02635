"""Reading what runs left behind."""
