"""Documents: YAML text to typed values with the line and column of each, and back to text."""
