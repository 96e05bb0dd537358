-- What holds memory at the peak.
select h.capture, h.device, h.level, l.label as line, h.bytes
from held h
left join lines l on h.line_key = l.line_key
where h.moment = 'peak'
