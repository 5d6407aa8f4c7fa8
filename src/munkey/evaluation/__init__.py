"""Predictions, metrics, and the search for settings."""
