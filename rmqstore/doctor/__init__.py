"""The triage: whether a broker will start on this store, what that will cost, what is wrong, and what to run next."""
