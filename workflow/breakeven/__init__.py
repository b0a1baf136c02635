"""Breakeven: how many GPUs a training is worth, split how, and what each further GPU buys."""

__version__ = "0.1.0"
