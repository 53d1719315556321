"""The laws of the elements and of their dot product, exactly."""
