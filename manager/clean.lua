-- Deletes the ticks and further keys of one source before its crawler starts. A tick that is deleted does not count as
-- pushed: its due time is forgotten, and returned.
-- KEYS[1]  string: the active manager
-- KEYS[2]  hash: the last due time pushed, by code; and, by " " and code, that the last tick pushed was asked for by hand
-- KEYS[3]  list of ticks
-- KEYS[4..] keys of any type
-- ARGV[1]  what stands in KEYS[1] while we are the active manager; "" does not ask
-- ARGV[2]  code
-- Returns the due time of the tick that was deleted, "" where none waited, or one that has no due time.
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOTACTIVE the manager\'s key is not ours')
end
local due = ''
local waiting = redis.pcall('LLEN', KEYS[3])
if type(waiting) == 'number' and waiting > 0 then
  local last = redis.pcall('HGET', KEYS[2], ARGV[2])
  if type(last) == 'string' and redis.pcall('HEXISTS', KEYS[2], ' ' .. ARGV[2]) == 0 then
    due = last
    redis.call('HDEL', KEYS[2], ARGV[2])
  end
end
if type(waiting) == 'number' then
  redis.call('DEL', KEYS[3])
  redis.pcall('HDEL', KEYS[2], ' ' .. ARGV[2])
end
for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
return due
