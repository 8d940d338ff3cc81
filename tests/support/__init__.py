"""What tests share: sample stores, a store builder, damages, strategies."""
