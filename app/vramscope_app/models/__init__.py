"""Qt item models: they only index rows that pure functions made."""
