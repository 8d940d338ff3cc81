"""The command line shell, its outputs, the catalogue and the pages made from it."""
