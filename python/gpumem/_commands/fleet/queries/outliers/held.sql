-- What holds memory at the peak.
select capture, device, level, line_key, bytes
from held
where moment = 'peak'
