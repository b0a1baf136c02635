"""The answer in words, and the page that shows it with its figures, tables and everything that went wrong."""
