"""The public Python interface: a store, its log and queues as objects, findings, predictions and plans. docs/python.md describes it.

Everything else below `rmqstore` is private and may change in any release.
"""
