"""transformers models whose weights are not on this machine: `from_pretrained` gets files that have a header and no
contents.

Weights are never downloaded. If they are in the folder or in the cache, they are used. Otherwise the configuration,
which the program loads as usual, defines the tensors and their type."""

from __future__ import annotations

import atexit
import copy
import functools
import inspect
import json
import os
import shutil
import struct
import sys
import tempfile
import threading
from typing import Any, Dict, List, Optional, Tuple

from .unseen import when_imported

# Size of a file of generated weights, unless a tensor is larger: a common size of published files.
_SHARD = 4 << 30
# Options that define where a model is searched for, in releases without a single option for them.
_WHERE = ("cache_dir", "revision", "token", "subfolder")
_TYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2",
    "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint8": "U8", "bool": "BOOL",
}  # fmt: skip


def watch(torch: Any, report: Any) -> None:
    """Replaces the look-up of files in transformers when it is imported."""
    when_imported(
        "transformers.modeling_utils", lambda module: _patch(torch, module, report),
        "its models are loaded only if their weights are there",
    )  # fmt: skip


def _patch(torch: Any, module: Any, report: Any) -> None:
    models, resolved = module.PreTrainedModel, module._get_resolved_checkpoint_files
    asked = inspect.signature(resolved).parameters
    loading = threading.local()
    original = models.__dict__["from_pretrained"].__func__

    @functools.wraps(original)
    def from_pretrained(cls: Any, name: Any, *words: Any, **options: Any) -> Any:
        before = getattr(loading, "of", None)
        loading.of = (cls, options.get("config"))
        try:
            return original(cls, name, *words, **options)
        finally:
            loading.of = before

    @functools.wraps(resolved)
    def files(*words: Any, **options: Any) -> Any:
        name = words[0] if words else options.get("pretrained_model_name_or_path")
        grouped = "download_kwargs" in asked
        where = options.get("download_kwargs") or {} if grouped else {each: options[each] for each in _WHERE if options.get(each) is not None}
        local = {**where, "local_files_only": True}
        try:
            found = resolved(*words, **{**options, **({"download_kwargs": local} if grouped else local)})
            missing = next((file for file in found[0] or () if not os.path.exists(file)), None)
            if missing is None:
                return found
            error = OSError(f"{missing} is not there")
        except OSError as refused:
            error = refused
        of: Optional[Tuple[Any, Any]] = getattr(loading, "of", None)
        # The configuration of a model does not describe an adapter for it.
        adapter = str(options.get("transformers_explicit_filename") or "").startswith("adapter")
        if of is None or adapter or options.get("gguf_file"):
            raise error
        cls, config = of
        if not hasattr(config, "to_dict"):
            config = cls.config_class.from_pretrained(name if config is None else config, **local)
        if getattr(config, "quantization_config", None) is not None:
            raise OSError(f"{error} (gpumem: which tensors quantized weights have, their configuration does not say)")
        return _made_up(torch, _architecture(config, cls), config, report)

    models.from_pretrained = classmethod(from_pretrained)
    module._get_resolved_checkpoint_files = files


def _architecture(config: Any, cls: Any) -> Any:
    """The class whose weights the files contain: a program may load a part of them."""
    import transformers

    name = (getattr(config, "architectures", None) or [""])[0]
    return getattr(transformers, name, None) or cls


def _made_up(torch: Any, cls: Any, config: Any, report: Any) -> Tuple[List[str], Optional[Dict[str, Any]]]:
    """Files with the tensors of a model, with the results of transformers' look-up."""
    folder = tempfile.mkdtemp(prefix="gpumem-weights.")
    atexit.register(_remove, folder, os.getpid())
    kind = _type(torch, config)
    with torch.device("meta"):
        model = cls(copy.deepcopy(config))
    tied = set(getattr(model, "all_tied_weights_keys", None) or ())
    state = {name: each for name, each in model.state_dict().items() if name not in tied}
    state = {name: each.to(kind) if each.is_floating_point() else each for name, each in _as_saved(model, state).items()}
    shards: List[Dict[str, Any]] = [{}]
    size = 0
    for name, each in state.items():
        size += each.numel() * each.element_size()
        if shards[-1] and size > _SHARD:
            shards.append({})
            size = each.numel() * each.element_size()
        shards[-1][name] = each
    paths, where = [], {}
    for number, shard in enumerate(shards, 1):
        path = os.path.join(folder, f"model-{number:05}-of-{len(shards):05}.safetensors")
        report.made_up(path, _write(path, shard))
        paths.append(path)
        where.update(dict.fromkeys(shard, os.path.basename(path)))
    sys.stderr.write(f"gpumem: the weights of {cls.__name__} are not on this machine: their shapes are those of the configuration, in {kind}\n")
    if len(paths) == 1:
        return paths, None
    total = sum(each.numel() * each.element_size() for each in state.values())
    return paths, {"total_size": total, "weight_map": where, "all_checkpoint_keys": list(where)}


def _as_saved(model: Any, state: Dict[str, Any]) -> Dict[str, Any]:
    """The state with the names and shapes of the files, if they differ from the model's."""
    try:
        from transformers.core_model_loading import revert_weight_conversion
    except ImportError:
        return state
    reverted: Dict[str, Any] = revert_weight_conversion(model, state)
    return reverted


def _type(torch: Any, config: Any) -> Any:
    """The floating-point type of the files."""
    for each in (config, getattr(config, "text_config", None)):
        kind = getattr(each, "dtype", None) or getattr(each, "torch_dtype", None)
        kind = getattr(torch, kind, None) if isinstance(kind, str) else kind
        if isinstance(kind, torch.dtype):
            return kind
    return torch.float32


def _write(path: str, tensors: Dict[str, Any]) -> int:
    """Writes a safetensors file whose data stays unwritten. Returns the size of the data."""
    header: Dict[str, Any] = {"__metadata__": {"format": "pt"}}
    at = 0
    for name, each in tensors.items():
        end = at + each.numel() * each.element_size()
        header[name] = {"dtype": _TYPES[str(each.dtype).split(".")[-1]], "shape": list(each.shape), "data_offsets": [at, end]}
        at = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    return at


def _remove(folder: str, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)
