"""Networks that map images to logits. Parameters have timm's names, so that tests can compare them."""
