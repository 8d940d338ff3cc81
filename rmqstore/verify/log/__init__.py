"""Verification of the commit log."""
