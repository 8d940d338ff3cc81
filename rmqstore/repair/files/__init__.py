"""Access to the files of a store for a repair: without following links, with the owner's rights, under the lock, each write announced."""
