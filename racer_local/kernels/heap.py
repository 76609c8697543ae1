"""A heap of int64 items in an array, the largest first; the caller keeps its size."""

from numba import njit


@njit(cache=True, nogil=True)
def heap_push(heap, size, item):
    """Add an item to the first `size` of `heap`, int64[H]; there must be room."""
    i = size
    while i > 0 and heap[(i - 1) >> 1] < item:
        heap[i] = heap[(i - 1) >> 1]
        i = (i - 1) >> 1
    heap[i] = item


@njit(cache=True, nogil=True)
def heap_pop(heap, size):
    """Take the largest of the first `size` items of `heap` and return it; one less is left."""
    top = heap[0]
    last = heap[size - 1]
    i = 0
    while True:
        c = 2 * i + 1
        if c >= size - 1:
            break
        if c + 1 < size - 1 and heap[c + 1] > heap[c]:
            c += 1
        if heap[c] <= last:
            break
        heap[i] = heap[c]
        i = c
    heap[i] = last
    return top
