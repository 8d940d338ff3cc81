"""Inspect, verify, predict and repair the on-disk store of Apache RocketMQ brokers, offline."""

__version__ = "0.1.0"
