"""Tests of `racer_local.drafting`."""
