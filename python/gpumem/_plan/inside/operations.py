"""How each PyTorch operation is handled, derived once from its schema."""

from __future__ import annotations

from typing import Any, List, Optional, Set

# Changes no values: views, metadata, queries.
PASS = "pass"
# Memory without values yet.
EMPTY = "empty"
ZERO = "zero"
COPY = "copy"
# A number that is returned to the program.
READ = "read"
# A tensor that PyTorch made of host data without an operation.
LIFT = "lift"
# Its result's size is in device memory, or it reads device memory while it runs.
COUNTED = "counted"
COMPUTED = "computed"
# Not computed: the work of a network, whose values do not matter here.
SKIPPED = "skipped"
# Works on many tensors at once, as in optimizers.
GROUP = "group"
# Ends the program if flags on the device are set.
CHECK = "check"
# Belongs to another library.
FOREIGN = "foreign"

_PASS = {
    "detach", "detach_", "alias", "set_", "resize_", "resize_as_", "record_stream", "is_pinned", "_pin_memory", "pin_memory", "is_same_size",
    "is_set_to", "requires_grad_", "_assert_async", "_functional_assert_async", "_assert_tensor_metadata", "_has_same_storage_numel",
    "_unsafe_view", "_reshape_alias", "_cudnn_init_dropout_state",
    "_fused_sdp_choice", "_use_cudnn_rnn_flatten_weight", "_cudnn_rnn_flatten_weight",
}  # fmt: skip
_EMPTY = {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "_efficientzerotensor"}
_ZERO = {"zeros", "zeros_like", "new_zeros", "zero_"}
_COPY = {"copy_", "_to_copy", "clone"}
_COUNTED = {
    "nonzero", "masked_select", "index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index", "_unsafe_index_put", "_unique",
    "_unique2", "unique_dim", "unique_consecutive", "unique_dim_consecutive", "bincount", "repeat_interleave", "histc", "equal",
    "_to_sparse", "_coalesce", "_to_sparse_csr", "_to_sparse_csc", "_to_sparse_bsr", "_to_sparse_bsc",
}  # fmt: skip
_SKIPPED = (
    "backward", "attention", "conv", "batch_norm", "cudnn", "miopen", "rnn", "lstm", "gru", "flash", "_scaled_mm", "_scaled_grouped", "grouped_mm",
)  # fmt: skip
_GROUP = ("_foreach_", "_fused_", "_amp_")
# Matrix products, with the arguments that are multiplied.
_PRODUCTS = {
    "mm": 0, "bmm": 0, "mv": 0, "dot": 0, "vdot": 0, "addmm": 1, "addbmm": 1, "baddbmm": 1, "addmv": 1, "addmm_": 1, "baddbmm_": 1, "addmv_": 1,
    "addbmm_": 1, "_addmm_activation": 1, "linear": 0, "_cdist_forward": 0,
}  # fmt: skip
_CUBIC = ("linalg", "cholesky", "svd", "qr", "lu_", "inverse", "triangular", "matrix_exp", "pdist", "symeig", "ormqr", "geqrf")
# The CPU does not check their indices: one out of range would access other memory of this process.
_UNCHECKED = ("embedding_bag", "ctc_loss", "segment_reduce", "unsafe_masked", "embedding_renorm")
_GENERATOR = "generator"


class Rule:
    """How one overload is handled."""

    __slots__ = ("cubic", "generator", "kind", "mutated", "name", "product", "random", "refused", "replaced", "unchecked")

    def __init__(self, func: Any, torch: Any):
        schema = func._schema
        namespace, _, name = schema.name.partition("::")
        self.name = name
        self.mutated: List[Any] = _mutated(schema)
        # Data types for which the CPU lacks the operation.
        self.refused: Set[Any] = set()
        self.product: Optional[int] = _PRODUCTS.get(name)
        self.cubic = any(part in name for part in _CUBIC)
        self.unchecked = any(part in name for part in _UNCHECKED)
        tag = getattr(torch.Tag, "nondeterministic_seeded", None)
        self.random = tag in func.tags or name in ("randperm", "_fused_dropout")
        self.generator = any(argument.name == _GENERATOR for argument in schema.arguments)
        # The overload with a generator, if this one has none.
        self.replaced = _with_generator(func) if self.random and not self.generator else None
        self.kind = self._kind(namespace, name, func)

    def _kind(self, namespace: str, name: str, func: Any) -> str:
        if namespace == "torchvision" and name == "nms":
            return COUNTED
        if namespace != "aten":
            return FOREIGN
        for kind, names in ((PASS, _PASS), (EMPTY, _EMPTY), (ZERO, _ZERO), (COPY, _COPY), (COUNTED, _COUNTED)):
            if name in names and (kind not in (ZERO, COPY) or "out" not in func._overloadname):
                return kind
        if name == "_local_scalar_dense":
            return READ
        if name == "_linalg_check_errors":
            return CHECK
        if name in ("lift_fresh", "lift"):
            return LIFT
        if getattr(func, "is_view", False):
            return PASS
        if name.startswith(_GROUP) and name != "_fused_dropout":
            return GROUP
        if any(part in name for part in _SKIPPED):
            return SKIPPED
        if self.random and not (self.generator or self.replaced or name in ("native_dropout", "_fused_dropout")):
            return SKIPPED
        return COMPUTED

    def work(self, args: Any) -> Any:
        """Approximate number of multiplications; 0 if there is one for each element."""
        if self.product is not None and len(args) > self.product + 1:
            left, right = args[self.product], args[self.product + 1]
            if self.name == "_cdist_forward":
                return left.numel() * right.shape[-2]
            if self.name == "linear":
                return left.numel() * right.shape[0]
            return left.numel() * (right.shape[-1] if right.dim() > 1 else 1)
        if self.cubic and args and hasattr(args[0], "shape") and args[0].dim() > 1:
            return args[0].numel() * max(args[0].shape[-2:])
        return 0


def _mutated(schema: Any) -> List[Any]:
    """Arguments that are written: indices of positional ones, names of others."""
    return [
        argument.name if argument.kwarg_only else at
        for at, argument in enumerate(schema.arguments)
        if argument.alias_info is not None and argument.alias_info.is_write
    ]


def _with_generator(func: Any) -> Any:
    packet = getattr(func, "overloadpacket", None)
    own = func._overloadname
    for name in (_GENERATOR, f"{own}_{_GENERATOR}", own.replace("_dtype", f"_{_GENERATOR}_dtype")):
        if packet is not None and name != own and name in packet.overloads():
            found = getattr(packet, name)
            if [a.name for a in found._schema.arguments if a.name != _GENERATOR] == [a.name for a in func._schema.arguments]:
                return found
    return None
