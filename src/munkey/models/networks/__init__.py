"""Networks: images to logits. Parameters are named as in timm, so that tests compare with timm."""
