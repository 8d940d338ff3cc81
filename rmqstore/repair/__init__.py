"""From a wish to a changed store: plan, apply, undo. The only room that writes into a store."""
