"""Tests of `tui`."""
