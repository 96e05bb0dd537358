-- The names of lines. What a backward or cuBLAS allocated for a line has a key of its own, and the line's name.
select line_key, case when file is null or line is null then replace(label, ' (cuBLAS workspace)', '') else concat(file, ':', line) end as label
from lines
