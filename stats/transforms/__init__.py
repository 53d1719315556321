"""Attention variants: what is done to q, k, logits and softmax, and its theory."""
