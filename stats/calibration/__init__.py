"""Our own error rates: exact where the law of the estimate is known, else over many runs."""
