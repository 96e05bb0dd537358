"""CUPTI, cuFFT and cuSOLVER of the simulator, with real PyTorch 2.15: the checks that the arguments name, in one
process. Nothing is computed, so only bytes and success are checked, not results."""

import ctypes
import sys

import torch
from sim_cuda import books
from torch import linalg
from torch.profiler import ProfilerActivity, profile

import winds_up  # noqa: F401

TYPES = (torch.float32, torch.float64, torch.complex64, torch.complex128)
INFO_BEFORE = 77


def driver_bytes():
    return books()["driver"]["current"]


def profiler():
    """CPU times and memory are PyTorch's own; there is no activity of the device."""
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA], profile_memory=True) as profiled:
        held = torch.randn(256, 256, device="cuda")
        product = held @ held
    rows = {row.key: row for row in profiled.key_averages()}
    assert rows["aten::mm"].count == 1 and rows["aten::mm"].self_cpu_time_total > 0
    assert rows["aten::mm"].self_device_memory_usage == product.numel() * 4
    assert rows["aten::mm"].self_device_time_total == 0
    assert "aten::randn" in profiled.key_averages().table()
    assert profiled.step_num == 0


def profiler_schedule():
    """Cycles of waiting, warming up and recording, as long trainings use them."""
    ready = []
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2, repeat=2)
    with profile(schedule=schedule, on_trace_ready=lambda done: ready.append(len(done.events()))) as profiled:
        for _ in range(8):
            torch.ones(8, device="cuda").add_(1)
            profiled.step()
    assert len(ready) == 2 and all(ready)


def transforms():
    for length in (64, 100, 101):
        real = torch.randn(4, length, device="cuda", requires_grad=True)
        torch.fft.rfft(real).abs().sum().backward()
        assert real.grad.shape == real.shape
        torch.fft.irfft(torch.fft.rfft(real), n=length).sum().backward()
        wave = torch.randn(4, length, device="cuda", dtype=torch.complex64, requires_grad=True)
        torch.fft.ifft(torch.fft.fft(wave)).abs().sum().backward()
        assert wave.grad.shape == wave.shape
        assert torch.fft.rfft2(torch.randn(3, length, length, device="cuda")).shape[-1] == length // 2 + 1
        torch.fft.fftn(torch.randn(2, length, 8, 8, device="cuda", dtype=torch.float64))
    torch.fft.fft(torch.randn(4, 64, device="cuda", dtype=torch.complex128))
    torch.cuda.synchronize()


def spectrogram():
    sound = torch.randn(2, 4000, device="cuda", requires_grad=True)
    window = torch.hann_window(400, device="cuda")
    spectrum = torch.stft(sound, 400, window=window, return_complex=True)
    assert spectrum.shape == (2, 201, 41)
    spectrum.abs().sum().backward()
    assert sound.grad.shape == sound.shape


def fft_workspace():
    """Prints by how much one transform raises the peak beyond its input and output."""
    for length in (1024, 1000, 1009):
        torch.backends.cuda.cufft_plan_cache.clear()
        wave = torch.zeros(4, length, device="cuda", dtype=torch.complex64)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        out = torch.fft.fft(wave)
        held = torch.cuda.memory_allocated() - before
        print("PEAK", length, torch.cuda.max_memory_allocated() - before - held, flush=True)
        del wave, out


def fft_library():
    """Plans that allocate their work areas, and what is not simulated."""
    fft = ctypes.CDLL("libcufft.so.12")
    size = ctypes.c_size_t()
    plan = ctypes.c_int()
    before = driver_bytes()
    assert fft.cufftPlan1d(ctypes.byref(plan), 1000, 0x29, 5) == 0
    assert fft.cufftGetSize(plan, ctypes.byref(size)) == 0
    assert size.value == driver_bytes() - before == 5 * 1000 * 8
    assert fft.cufftExecC2C(plan, None, None, -1) == 0
    assert fft.cufftDestroy(plan) == 0 and driver_bytes() == before
    assert fft.cufftExecC2C(plan, None, None, -1) == 1

    assert fft.cufftCreate(ctypes.byref(plan)) == 0
    assert fft.cufftSetAutoAllocation(plan, 0) == 0
    assert fft.cufftMakePlan2d(plan, 30, 50, 0x69, ctypes.byref(size)) == 0
    assert size.value == 30 * 50 * 16 and driver_bytes() == before
    assert fft.cufftExecZ2Z(plan, None, None, -1) == 13, "there is no work area"
    area = torch.empty(size.value, dtype=torch.uint8, device="cuda")
    assert fft.cufftSetWorkArea(plan, ctypes.c_void_p(area.data_ptr())) == 0
    assert fft.cufftExecZ2Z(plan, None, None, -1) == 0
    assert fft.cufftDestroy(plan) == 0
    assert [fft.cufftXtSetGPUs(plan, 2, None) for _ in range(2)] == [16, 16]


def algebra():
    for dtype in TYPES:
        for shape in ((8, 8), (3, 8, 8), (3, 40, 40), (600, 600)):
            a = torch.randn(*shape, device="cuda", dtype=dtype, requires_grad=True)
            b = torch.randn(*shape[:-1], 2, device="cuda", dtype=dtype)
            for result in (
                linalg.svd(a, full_matrices=False)[1],
                linalg.svd(a, full_matrices=False, driver="gesvd")[1],
                linalg.svd(a, full_matrices=False, driver="gesvdj")[1],
                linalg.svd(a, full_matrices=False, driver="gesvda")[1],
                linalg.qr(a)[1].abs(),
                linalg.cholesky(a).abs(),
                linalg.solve(a, b).abs(),
                linalg.eigh(a)[0],
                linalg.inv(a).abs(),
                linalg.lstsq(a, b).solution.abs(),
                linalg.lu(a)[1].abs(),
                torch.cholesky_solve(b, a).abs(),
                linalg.lu_solve(*linalg.lu_factor(a), b).abs(),
            ):
                a.grad = None
                result.sum().backward()
                assert a.grad.shape == a.shape
            factors = linalg.ldl_factor(a.detach())
            assert linalg.ldl_solve(*factors, b).shape == b.shape
    torch.cuda.synchronize()


def statuses():
    """Every routine sets its statuses to 0, on the stream of its handle."""
    solver = ctypes.CDLL("libcusolver.so.12")
    handle = ctypes.c_void_p()
    assert solver.cusolverDnCreate(ctypes.byref(handle)) == 0
    stream = torch.cuda.Stream()
    assert solver.cusolverDnSetStream(handle, ctypes.c_void_p(stream.cuda_stream)) == 0
    info = torch.full((4,), INFO_BEFORE, dtype=torch.int32).cuda()
    place = ctypes.c_void_p(info.data_ptr())
    matrix = ctypes.c_void_p(torch.zeros(100, device="cuda").data_ptr())
    assert solver.cusolverDnSpotrf(handle, 0, 10, matrix, 10, matrix, 100, place) == 0
    stream.synchronize()
    assert info.tolist() == [0] + [INFO_BEFORE] * 3
    assert solver.cusolverDnSpotrfBatched(handle, 0, 10, matrix, 10, place, 3) == 0
    stream.synchronize()
    assert info.tolist() == [0] * 3 + [INFO_BEFORE]
    size = ctypes.c_int()
    assert solver.cusolverDnSgeqrf_bufferSize(handle, 64, 50, matrix, 64, ctypes.byref(size)) == 0
    assert size.value == 32 * 50
    device, host = ctypes.c_size_t(), ctypes.c_size_t(5)
    sizes = (ctypes.byref(device), ctypes.byref(host))
    long = ctypes.c_longlong
    asked = solver.cusolverDnXpotrf_bufferSize(handle, None, 0, long(50), 1, matrix, long(50), 1, *sizes)
    assert (asked, device.value, host.value) == (0, 32 * 50 * 8, 0)
    assert [solver.cusolverSpCreate(ctypes.byref(handle)) for _ in range(2)] == [9, 9]
    assert solver.cusolverDnDestroy(handle) == 0
    assert solver.cusolverDnSpotrf(handle, 0, 10, matrix, 10, matrix, 100, place) == 1


if __name__ == "__main__":
    torch.cuda.init()
    for check in sys.argv[1:]:
        globals()[check]()
        print(check, "holds", flush=True)
