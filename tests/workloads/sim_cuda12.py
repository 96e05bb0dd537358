"""CUDA 12's libraries of the simulator, preloaded: their versions, and the functions whose parameters differ from
CUDA 13's. Prints the versions as JSON."""

import ctypes
import json
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

cudart = ctypes.CDLL("libcudart.so.12")
BYTES = 2 << 20
ACTIVE, RELAXED, SET = 1, 2, 1
PREFERRED_LOCATION, HOST, INVALID_DEVICE = 3, -1, 101


def call(name, *arguments):
    """As a C program calls it: pointers and sizes have 64 bits, integers 32."""
    error = getattr(cudart, name)(*arguments)
    assert error == 0, f"{name}: {error}"


def size(value):
    return c_size_t(value)


def versions():
    found, handle = {}, c_void_p()
    for library, name in (
        ("libcudart.so.12", "cudaRuntimeGetVersion"), ("libcudart.so.12", "cudaDriverGetVersion"), ("libcufft.so.11", "cufftGetVersion"),
        ("libcusolver.so.11", "cusolverGetVersion"), ("libcupti.so.12", "cuptiGetVersion"),
    ):  # fmt: skip
        value = c_int()
        assert getattr(ctypes.CDLL(library), name)(byref(value)) == 0
        found[name] = value.value
    cublas, cublas_lt, value = ctypes.CDLL("libcublas.so.12"), ctypes.CDLL("libcublasLt.so.12"), c_int()
    assert cublas.cublasCreate_v2(byref(handle)) == 0 and cublas.cublasGetVersion_v2(handle, byref(value)) == 0
    assert cublas.cublasDestroy_v2(handle) == 0
    cublas_lt.cublasLtGetVersion.restype = cublas_lt.cublasLtGetCudartVersion.restype = c_size_t
    found["cublasGetVersion"], found["cublasLtGetVersion"] = value.value, cublas_lt.cublasLtGetVersion()
    found["cublasLtGetCudartVersion"] = cublas_lt.cublasLtGetCudartVersion()
    return found


def edges(graph):
    """How many there are, and the first one's nodes."""
    count, before, after = c_size_t(), c_void_p(), c_void_p()
    call("cudaGraphGetEdges", graph, None, None, byref(count))
    if count.value:
        one = c_size_t(1)
        call("cudaGraphGetEdges", graph, byref(before), byref(after), byref(one))
    return count.value, before.value, after.value


def graphs():
    """Two fills, one after the other."""
    pointer, stream, graph = c_void_p(), c_void_p(), c_void_p()
    status, number, count, nodes = c_uint(), c_ulonglong(), c_size_t(), c_void_p()
    call("cudaMalloc", byref(pointer), size(BYTES))
    call("cudaStreamCreate", byref(stream))
    call("cudaStreamBeginCapture", stream, RELAXED)
    for _ in range(2):
        call("cudaMemsetAsync", pointer, 0, size(BYTES), stream)
    call("cudaStreamGetCaptureInfo", stream, byref(status), byref(number))
    assert status.value == ACTIVE and number.value
    info = (stream, byref(status), byref(number), byref(graph), byref(nodes))
    call("cudaStreamGetCaptureInfo_v2", *info, byref(count))
    assert count.value == 1 and nodes.value and graph.value
    call("cudaStreamUpdateCaptureDependencies", stream, None, size(0), SET)
    call("cudaStreamGetCaptureInfo_v3", *info, None, byref(count))
    assert count.value == 0
    call("cudaStreamEndCapture", stream, byref(graph))

    both = (c_void_p * 2)()
    count.value = 2
    call("cudaGraphGetNodes", graph, both, byref(count))
    number_of_edges, first, second = edges(graph)
    assert number_of_edges == 1 and {first, second} == set(both)
    for name, node, neighbour in (
        ("cudaGraphNodeGetDependencies", second, first), ("cudaGraphNodeGetDependentNodes", first, second),
    ):  # fmt: skip
        found, count.value = c_void_p(), 1
        call(name, c_void_p(node), byref(found), byref(count))
        assert (found.value, count.value) == (neighbour, 1), name
    for name, left in (("cudaGraphRemoveDependencies", 0), ("cudaGraphAddDependencies", 1)):
        call(name, graph, byref(c_void_p(first)), byref(c_void_p(second)), size(1))
        assert edges(graph)[0] == left, name


def managed():
    """Places are devices, or the host."""
    pointer, free, total = c_void_p(), c_size_t(), c_size_t()
    call("cudaMallocManaged", byref(pointer), size(BYTES), 1)
    at = []
    for place in (0, HOST, 0, HOST):  # the first touch takes additional memory
        call("cudaMemAdvise", pointer, size(BYTES), PREFERRED_LOCATION, place)
        call("cudaMemPrefetchAsync", pointer, size(BYTES), place, None)
        call("cudaMemGetInfo", byref(free), byref(total))
        at.append(free.value)
    assert at[1] == at[3] == at[2] + BYTES, at
    assert cudart.cudaMemPrefetchAsync(pointer, size(BYTES), 5, None) == INVALID_DEVICE


found = versions()
graphs()
managed()
print(json.dumps(found))
