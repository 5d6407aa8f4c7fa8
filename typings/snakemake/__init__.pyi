"""Snakemake ships no types. Only what workflow/scripts use is described here."""
