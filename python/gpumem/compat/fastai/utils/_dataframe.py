"""Smaller types for a DataFrame's columns."""

from typing import Any

__all__ = ["reduced"]


def reduced(df: Any) -> Any:
    """Changes `df` in place, prints the result, and returns it."""
    import numpy
    import pandas

    before = df.memory_usage(index=True).sum() / 2**20
    print(f"Memory usage of dataframe is {before:.2f} MB")
    for name in df.columns:
        smaller = _type_of(df[name], numpy, pandas)
        if smaller is not None:
            df[name] = df[name].astype(smaller)
    after = df.memory_usage(index=True).sum() / 2**20
    share = 100 * (before - after) / before if before else 0.0
    print(f"Memory usage after optimization is: {after:.2f} MB")
    print(f"Decreased by {share:.1f}%")
    return df


def _type_of(column: Any, numpy: Any, pandas: Any) -> Any:
    """The smallest type for a column's values; None to keep the type."""
    types = pandas.api.types
    if types.is_bool_dtype(column) or not isinstance(column.dtype, numpy.dtype):
        return None
    if types.is_integer_dtype(column) and len(column):
        least, most = int(column.min()), int(column.max())
        kinds = "u" if types.is_unsigned_integer_dtype(column) else "i"
        for size in (1, 2, 4, 8):
            info = numpy.iinfo(f"{kinds}{size}")
            if info.min <= least and most <= info.max:
                return numpy.dtype(f"{kinds}{size}")
    if types.is_float_dtype(column):
        return _float_type(column, numpy)
    if types.is_object_dtype(column):
        return "category" if column.map(lambda value: isinstance(value, str) or value is None).all() else None
    return None


def _float_type(column: Any, numpy: Any) -> Any:
    values = column.to_numpy()
    finite = values[numpy.isfinite(values)]
    with numpy.errstate(over="ignore"):
        if (finite.astype("f2").astype(values.dtype) == finite).all():
            return numpy.dtype("f2")
    if finite.size == 0 or abs(finite).max() <= numpy.finfo("f4").max:
        return numpy.dtype("f4") if values.dtype.itemsize > 4 else None
    return None
