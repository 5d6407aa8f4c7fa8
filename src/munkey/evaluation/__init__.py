"""Predictions, metrics, the search for settings, and the selection of p_image and p_token."""
