"""Summaries of the results, and the tables that show them."""
