"""Damaged and hostile stores: what verify and the other commands make of them."""
