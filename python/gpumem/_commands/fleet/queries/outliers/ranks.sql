-- The figures of ranks. `gpumem-analyze fleet outliers` compares them.
select run, capture, device, rank, coordinates, started, ended, tensor_peak_bytes, reserved_peak_bytes, process_peak_bytes,
  unexplained_bytes
from ranks
where rank is not null
order by run, capture
