"""Other copies of a store, and what a repair takes from them."""
