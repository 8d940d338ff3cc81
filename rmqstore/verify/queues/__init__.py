"""Verification of consume queues against the commit log."""
