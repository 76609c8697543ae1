"""Devices that this build of llama.cpp can use."""

import ctypes
from dataclasses import dataclass
from functools import cache

from llama_cpp._ggml import libggml

DEVICE_TYPE_CPU = 0
DEVICE_TYPE_GPU = 1
DEVICE_TYPE_IGPU = 2


@dataclass(frozen=True, slots=True)
class Device:
    """A device as llama.cpp names it. Memory is in bytes, 0 where the backend does not tell."""

    name: str
    description: str
    kind: int
    free: int
    total: int


@cache
def all_devices() -> tuple[Device, ...]:
    """Devices in llama.cpp's own order."""
    count, get = libggml.ggml_backend_dev_count, libggml.ggml_backend_dev_get
    name, description = libggml.ggml_backend_dev_name, libggml.ggml_backend_dev_description
    kind, memory = libggml.ggml_backend_dev_type, libggml.ggml_backend_dev_memory
    size_p = ctypes.POINTER(ctypes.c_size_t)
    count.restype, count.argtypes = ctypes.c_size_t, []
    get.restype, get.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
    name.restype, name.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    description.restype, description.argtypes = ctypes.c_char_p, [ctypes.c_void_p]
    kind.restype, kind.argtypes = ctypes.c_int, [ctypes.c_void_p]
    memory.restype, memory.argtypes = None, [ctypes.c_void_p, size_p, size_p]
    found = []
    for i in range(count()):
        device = get(i)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        memory(device, ctypes.byref(free), ctypes.byref(total))
        found.append(Device(name(device).decode(), description(device).decode(), kind(device), free.value, total.value))
    return tuple(found)


def gpu_names() -> tuple[str, ...]:
    """Descriptions of the GPUs."""
    return tuple(d.description for d in all_devices() if d.kind in (DEVICE_TYPE_GPU, DEVICE_TYPE_IGPU))
