"""Query and key weights: their initialisations, the tokens they act on, and the theory of both."""
