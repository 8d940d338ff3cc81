"""Verification of the timer: wheel, log, messages and queue against each other."""
