"""Published figures as data, and the verdict on each."""
