"""The statistics of one softmax row, for a known law of its logits."""
