"""The tests of rmqstore."""
