"""The triage: will a broker start on this store, what will that cost, what is wrong, and what to run next."""
