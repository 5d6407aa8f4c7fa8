"""Unlearning: the contract of a method, what methods share, and in `methods` one file per method."""
