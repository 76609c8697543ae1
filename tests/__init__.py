"""Tests of the package. `naive` holds slow twins of the kernels, `fakes` a model without weights."""
