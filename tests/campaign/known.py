"""Cases that the product does not pass yet, and why. The test of one that passes fails: then its line goes."""

from __future__ import annotations

ALONE: dict[str, str] = {}
"""Kinds of damage whose case fails."""

RANDOM: dict[int, str] = {}
"""Numbers of random cases that fail."""
