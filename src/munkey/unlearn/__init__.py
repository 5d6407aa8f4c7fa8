"""Unlearning: the contract of a method, shared parts, and in `methods` one file per method."""
