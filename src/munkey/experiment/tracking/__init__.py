"""The results as MLflow shows them."""
