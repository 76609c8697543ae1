"""Tests on real model files."""
