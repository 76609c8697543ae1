"""Numba kernels: arrays in, arrays out. They know nothing of objects, settings or llama.cpp."""
