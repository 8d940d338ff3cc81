"""Tests of `rmqstore dump`."""
