"""Audits: residual shares and attacks, controls, power, and the verdicts that follow."""
