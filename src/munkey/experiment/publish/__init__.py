"""A run as one file that others can check: write it, compute its tables again, train a seed again."""
