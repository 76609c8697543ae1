"""The parts of the screen, one a file, each with its own style."""
