"""What happens: draw q and k with JAX, and measure them."""
