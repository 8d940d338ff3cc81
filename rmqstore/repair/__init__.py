"""Repair of a store: plan, apply, undo. The only package that writes into a store."""
