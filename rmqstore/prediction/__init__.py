"""What a broker of a given release does to a store at its next start: the simulation, which never writes."""
