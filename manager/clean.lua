-- Deletes the ticks and further keys of one source before its crawler starts. A tick that is deleted does not count as
-- pushed: its due time is forgotten, and returned.
-- KEYS[1]  hash: the last due time pushed, by code
-- KEYS[2]  list of ticks
-- KEYS[3..] keys of any type
-- ARGV[1]  code
-- Returns the due time of the tick that was deleted, "" where none waited.
local due = ''
local waiting = redis.pcall('LLEN', KEYS[2])
if type(waiting) == 'number' and waiting > 0 then
  local last = redis.pcall('HGET', KEYS[1], ARGV[1])
  if type(last) == 'string' then
    due = last
    redis.call('HDEL', KEYS[1], ARGV[1])
  end
end
for i = 3, #KEYS do redis.call('DEL', KEYS[i]) end
if type(waiting) == 'number' then redis.call('DEL', KEYS[2]) end
return due
