"""Executes one run and leaves its record. The launcher imports no torch: it starts the ranks, watches them, and writes
down how they ended. ``worker`` is what each rank runs."""
