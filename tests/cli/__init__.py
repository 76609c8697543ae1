"""Tests of `racer_local.cli`."""
