"""Estimators shared by every source: small pure functions over arrays."""
