"""Logging results in MLflow."""
