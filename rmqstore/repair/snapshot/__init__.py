"""Copies of a store from which a broker starts."""
