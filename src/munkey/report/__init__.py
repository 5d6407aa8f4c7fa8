"""Summaries of the results, and the tables, figures and page that show them."""
