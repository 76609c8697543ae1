"""Tests of `racer_local.llama`."""
