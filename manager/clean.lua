-- Deletes the ticks and further keys of one source before its crawler starts. A tick that is deleted does not count as
-- pushed: its due time is returned, and kept with "Y" at its end. So the script that pushes takes it, but none before it, which
-- may have gone out.
-- KEYS[1]  string: the active manager
-- KEYS[2]  hash: the last due time pushed, by code; and, by " " and code, that the last tick pushed was asked for by hand;
--          by "-" and code, the id of the last cleaning; by "+" and code, the due time of a tick that a cleaning deleted,
--          until another tick that has one is pushed
-- KEYS[3]  list of ticks
-- KEYS[4..] keys of any type
-- ARGV[1]  what stands in KEYS[1] while we are the active manager; "" does not ask
-- ARGV[2]  code
-- ARGV[3]  id of this cleaning. One that was done before, whose answer was lost, deletes nothing: the crawler may be at work
-- Returns the due time of the tick that was deleted, by this cleaning or an earlier one; "" where none is owed.
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOTACTIVE the manager\'s key is not ours')
end
local code, id = ARGV[2], ARGV[3]
local owed = redis.pcall('HGET', KEYS[2], '+' .. code)
local due = type(owed) == 'string' and owed or ''
if redis.pcall('HGET', KEYS[2], '-' .. code) == id then return due end
local waiting = redis.pcall('LLEN', KEYS[3])
if type(waiting) == 'number' then
  redis.call('DEL', KEYS[3]) -- first: where that is refused nothing is noted, and after a write a server without memory takes all others
  local last = redis.pcall('HGET', KEYS[2], code)
  if waiting > 0 and type(last) == 'string' and last:sub(-1) == 'Z' and redis.pcall('HEXISTS', KEYS[2], ' ' .. code) == 0 then
    due = last
    redis.pcall('HSET', KEYS[2], code, last:sub(1, -2) .. 'Y')
  end
  redis.pcall('HDEL', KEYS[2], ' ' .. code)
end
for i = 4, #KEYS do redis.call('DEL', KEYS[i]) end
redis.pcall('HSET', KEYS[2], '-' .. code, id) -- a server without memory refuses: deleting goes on all the same
if due ~= '' then redis.pcall('HSET', KEYS[2], '+' .. code, due) end
return due
