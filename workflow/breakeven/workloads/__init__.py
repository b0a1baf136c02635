"""What is trained: a model and its objective. Equal seed weights on every rank, whatever the strategy."""
