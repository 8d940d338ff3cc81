"""A repair as data: what a plan is, how it is built, checked, kept in a file, and read as the store that it leads to."""
