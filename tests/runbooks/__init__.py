"""The runbooks, tried on stores: the very text of every page is run."""
