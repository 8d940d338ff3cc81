"""A plan that is applied: its folder and journal, preparation, actions, undo, history."""
