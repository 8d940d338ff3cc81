"""What the doctor looks at, one question per module; each gives findings or effects on an area."""
