"""Plans for the timer: units of lost messages, the wheel, the check point."""
