"""Trees of any size: messages along the edges."""
