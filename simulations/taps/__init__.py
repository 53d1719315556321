"""Taps: find the attention logits inside a module that says nothing about them."""
