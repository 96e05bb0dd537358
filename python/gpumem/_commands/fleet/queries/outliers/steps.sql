-- The highest memory of tensors in each step.
select capture, device, first_step, steps, bytes
from steps
