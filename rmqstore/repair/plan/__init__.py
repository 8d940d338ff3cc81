"""A repair as data: the plan, and how it is built, checked, kept in a file, and read as the store that it leads to."""
