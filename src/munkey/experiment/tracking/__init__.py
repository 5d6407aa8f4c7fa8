"""Logging results to MLflow."""
