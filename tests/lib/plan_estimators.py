"""Other tools' figures for a program's memory: PyTorch's MemTracker while the program runs, with tensors without
memory (FakeTensorMode) or on the simulator; accelerate's and DeepSpeed's estimates of its model.

    plan_estimators.py fake|device FILE PROGRAM

writes one JSON object into FILE. Figures are bytes; null: the tool has no figure."""

import contextlib
import json
import os
import runpy
import sys

import torch
from torch.distributed._tools.mem_tracker import MemTracker


class NoModules:
    """Replaces the tracking of modules for MemTracker's sums by module, which refuses a second step and models that
    do not train. The sums of a device are the same without it."""

    is_bw = False
    parents = frozenset()

    def register_user_hooks(self, *_):
        pass

    def clear_user_hooks(self):
        pass

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass


class Tracker(MemTracker):
    """MemTracker's sums of each device, for any program."""

    supports_higher_order_operators = True

    def __init__(self):
        super().__init__()
        self._mod_tracker = NoModules()


def moved(module, function, recurse=True, made=None):
    """Module._apply, which cannot move parameters that are FakeTensors: it would swap them, and they are referred to."""
    made = {} if made is None else made
    for child in module.children() if recurse else ():
        moved(child, function, recurse, made)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            if parameter not in made:
                with torch.no_grad():
                    made[parameter] = torch.nn.Parameter(function(parameter), parameter.requires_grad)
            module._parameters[name] = made[parameter]
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = function(buffer)
    return module


class Seen:
    """The first module that the program calls, and how it does so."""

    def __init__(self):
        self.model, self.trains, self.mixed = None, False, None
        hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: self.called(module, hook))
        enter = torch.autocast.__enter__

        def entered(autocast):
            if autocast.device == "cuda" and autocast._enabled:
                self.mixed = str(autocast.fast_dtype).replace("torch.", "")
            return enter(autocast)

        torch.autocast.__enter__ = entered

    def called(self, module, hook):
        self.model = self.model or module
        # Before it trains, it may be evaluated.
        if module is self.model and torch.is_grad_enabled() and any(each.requires_grad for each in module.parameters()):
            self.trains = True
            hook.remove()


def elements(parameter):
    """The number of elements of a parameter before it was sharded."""
    whole = getattr(parameter, "_unpadded_unsharded_size", None)
    return whole.numel() if whole is not None else getattr(parameter, "ds_numel", parameter.numel())


def accelerate_estimate(seen):
    from accelerate.commands.estimate import estimate_training_usage
    from accelerate.utils import calculate_maximum_sizes

    parameters = list(seen.model.parameters())
    if any(elements(each) != each.numel() for each in parameters):
        size = sum(elements(each) * each.element_size() for each in parameters)
    else:
        size, _ = calculate_maximum_sizes(seen.model)
    if not seen.trains:
        return int(size)
    return int(max(estimate_training_usage(size, seen.mixed or "float32").values()))


def deepspeed_estimate(seen):
    if not seen.trains:
        return None
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as stage3
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as stage2

    total = sum(map(elements, seen.model.parameters()))
    gpus = int(os.environ.get("WORLD_SIZE", "1"))
    if any(hasattr(each, "ds_numel") for each in seen.model.parameters()):
        largest = max(sum(map(elements, module.parameters(recurse=False))) for module in seen.model.modules())
        return stage3(total, largest, num_gpus_per_node=gpus, cpu_offload=True, cpu_offload_params=False)[1]
    return stage2(total, num_gpus_per_node=gpus, cpu_offload=False)[1]


def tracked(tracker):
    peaks = [each["Total"] for device, each in tracker.get_tracker_snapshot("peak").items() if device.type == "cuda"]
    return max(peaks, default=0)


def main(kind, file, program):
    from torch._subclasses import FakeTensorMode

    seen, result = Seen(), {"mem_tracker": None, "accelerate": None, "deepspeed": None, "failed": None}
    sys.argv = [program]
    tracker = Tracker()
    if kind == "fake":
        torch.nn.Module._apply = moved
    try:
        with FakeTensorMode(allow_non_fake_inputs=True) if kind == "fake" else contextlib.nullcontext(), tracker:
            runpy.run_path(program, run_name="__main__")
        result["mem_tracker"] = tracked(tracker)
    except Exception as error:  # the caller reports what is not tracked
        result["failed"] = f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[0]}"
    if seen.model is not None and kind != "fake":
        result["accelerate"], result["deepspeed"] = accelerate_estimate(seen), deepspeed_estimate(seen)
    with open(file, "w") as out:
        json.dump(result, out)


if __name__ == "__main__":
    main(*sys.argv[1:])
    os._exit(0)
