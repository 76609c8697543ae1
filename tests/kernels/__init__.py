"""Tests of `racer_local.kernels`."""
