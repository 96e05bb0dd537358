"""ipyexperiments: memory taken up on purpose, cells and experiments; without IPython here."""

import re

import torch
from checking import MB, PRELOADED, SLOW, equal, said

import gpumem.compat

gpumem.compat.install()

import ipyexperiments  # noqa: E402
import ipyexperiments.utils.mem as mem  # noqa: E402
import simulator  # noqa: E402
from ipyexperiments.cell_logger import CellLogger, CellLoggerMemory  # noqa: E402

mem.preload_pytorch()


def card():
    return simulator.books()["devices"][torch.cuda.current_device()]


def check_figures():
    torch.cuda.empty_cache()
    device = torch.cuda.current_device()
    used, total = card()["physical"]["current"], card()["total_bytes"]
    for id in (None, device):
        equal(mem.gpu_mem_get_total_mbs(id), total // MB)
        equal(mem.gpu_mem_get_used_mbs(id), used // MB)
        equal(mem.gpu_mem_get_free_mbs(id), (total - used) // MB)
    equal(mem.gpu_mem_get_mbs(), (total // MB, (total - used) // MB, used // MB))
    equal(mem.get_nvml_gpu_id(device), device)
    x = mem.gpu_mem_allocate_mbs(64)
    del x
    equal(mem.gpu_mem_get_used_mbs() - used // MB, 64)
    equal(mem.gpu_mem_get_used_no_cache_mbs(), used // MB)
    equal(mem.gpu_mem_get_free_no_cache_mbs(), (total - used) // MB)


def check_memory_taken_up():
    torch.cuda.empty_cache()
    for n in (0, 1, 5, 9, 10, 33, 500):
        before = card()["physical"]["current"]
        x = mem.gpu_mem_allocate_mbs(n)
        assert abs((card()["physical"]["current"] - before) / MB - n) <= 2, n
        equal((x.numel(), x.dtype, x.is_cuda), (n * MB // 4, torch.float32, True))
        del x
        torch.cuda.empty_cache()
        equal(card()["physical"]["current"], before)
    equal(mem.gpu_mem_allocate_mbs(10**6), None)
    try:
        mem.gpu_mem_allocate_mbs(10**6, fatal=True)
    except RuntimeError as error:
        assert "out of memory" in str(error), error
    else:
        raise AssertionError("there is no such memory")


def check_little_left():
    hold = mem.gpu_mem_leave_free_mbs(100)
    assert abs(mem.gpu_mem_get_free_mbs() - 100) <= 2, mem.gpu_mem_get_free_mbs()
    equal(mem.gpu_mem_allocate_mbs(200), None)
    x = mem.gpu_mem_allocate_mbs(60)
    assert x is not None
    del x
    for n in (200, 10**6):
        try:
            mem.gpu_mem_leave_free_mbs(n)
        except AssertionError as error:
            equal(str(error), f"already have less available mem than desired {n}MBs")
        else:
            raise AssertionError("there is less")
    del hold
    assert mem.gpu_mem_allocate_mbs(200) is not None


keep: list = []


def check_cells():
    torch.cuda.empty_cache()
    logger = CellLogger()
    out = said(lambda: (logger.pre_run_cell(), keep.append(mem.gpu_mem_allocate_mbs(256)), logger.post_run_cell()))
    cpu, gpu, _ = logger.data
    total = card()["physical"]["current"]
    equal(gpu, CellLoggerMemory(256 * MB, 0, total))
    lines = out.splitlines()
    equal(len(lines), 3)
    assert re.fullmatch(r"･ RAM:  △Consumed    △Peaked    Used Total \| Exec time \d:\d\d:\d\d\.\d{3}", lines[0]), lines
    used, peaked, all_used = (int(number / MB) for number in cpu)
    equal(lines[1], f"･ CPU: {used:10,} {peaked:10,} {all_used:10,} MB |")
    equal(lines[2], f"･ GPU:        256          0 {total // MB:10,} MB |")
    logger.compact = True
    line = said(logger.report)
    assert re.fullmatch(
        rf"CPU: {used}/{peaked}/{all_used} MB \| GPU: 256/0/{total // MB} MB \| Time \d:\d\d:\d\d\.\d{{3}} "
        r"\| \(Consumed/Peaked/Used Total\)\n", line), line
    keep.clear()


def check_short_peaks_of_cells():
    logger = CellLogger(compact=True)
    logger.pre_run_cell()
    x = torch.empty(64 * MB, dtype=torch.uint8, device="cuda")
    del x
    said(logger.post_run_cell)
    if PRELOADED or SLOW:
        equal(logger.data.gpu[:2], (0, 64 * MB))
    assert 0 <= logger.data.gpu.peaked_delta <= 64 * MB


def check_seeds():
    logger = CellLogger(set_seed=7)
    values = []
    for _ in range(2):
        logger.pre_run_cell()
        values.append(torch.rand(1).item())
        said(logger.post_run_cell)
    equal(values[0], values[1])


def check_an_experiment():
    import __main__

    torch.cuda.empty_cache()
    out = []
    out.append(said(lambda: out.append(ipyexperiments.IPyExperimentsPytorch())))
    experiment, start = out
    total, used = card()["total_bytes"], card()["physical"]["current"]
    device = torch.cuda.current_device()
    assert start.startswith(
        "\n*** Experiment started with the Pytorch backend\n"
        f"Device: ID {device}, gpumem simulated GPU ({total // MB} RAM)\n\n"
        "\n*** Current state:\nRAM:    Used    Free   Total       Util\n"
    ), start
    assert f"GPU: {used // MB:7,} {(total - used) // MB:7,} {total // MB:7,} MB {100 * used / total:6.2f}% \n" in start
    __main__.kept = mem.gpu_mem_allocate_mbs(32)
    __main__.gone = mem.gpu_mem_allocate_mbs(64)
    experiment.keep_var_names("kept")
    equal(experiment.data.gpu[:2], (96 * MB, 0))
    end = said(experiment.finish)
    assert "\n*** Newly defined local variables:\nDeleted: gone\nKept:    kept\n" in end, end
    assert f"GPU: {96:8,} {64:8,} MB ( 66.67%)\n" in end, end
    equal(experiment.data.gpu, (96 * MB, 64 * MB, total - card()["physical"]["current"]))
    assert hasattr(__main__, "kept") and not hasattr(__main__, "gone")
    del __main__.kept
    equal((said(experiment.finish), experiment.cl), ("", None))


def check_an_experiment_that_is_off():
    def off():
        experiment = ipyexperiments.IPyExperimentsCPU(exp_enable=False, cl_compact=True)
        equal((experiment.cl.running, experiment.data.cpu), (True, (0, 0, 0)))
        equal((experiment.finish(), experiment.cl), (None, None))

    lines = said(off).splitlines()
    equal(lines[:3], ["", "*** Experiment started with the CPU-only backend", ""])
    assert len(lines) == 4 and lines[3].startswith("CPU: "), lines


def check_an_experiment_of_the_cpu():
    def block():
        with ipyexperiments.IPyExperimentsCPU(cl_enable=False) as experiment:
            assert experiment.cl is None

    out = said(block)
    assert "GPU" not in out and "*** Experiment started with the CPU-only backend" in out, out
