-- Forgets an event that is decided now.
DELETE FROM undecided WHERE partition = %s AND log_offset = %s
