"""Tests of `racer_local.bench`."""
