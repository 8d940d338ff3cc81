"""The search for single messages: by key, message id, queue offset, time, physical offset."""
