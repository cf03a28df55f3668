"""The parts of the window: setters down, signals up."""
