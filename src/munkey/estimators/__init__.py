"""Classifiers for scikit-learn's pipelines and searches that forget rows exactly."""
