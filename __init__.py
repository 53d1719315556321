"""Monte Carlo statistics and verification for the attention logit."""
