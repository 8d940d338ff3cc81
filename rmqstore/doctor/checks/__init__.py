"""The checks of the doctor, one question per module; each yields findings or effects on an area."""
