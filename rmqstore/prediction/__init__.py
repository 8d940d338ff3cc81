"""Simulation of the next start of a broker of a given release on a store. It never writes."""
