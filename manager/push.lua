-- Pushes a tick into each list that is empty, where this due time was not pushed before.
-- KEYS[1]    string: the active manager
-- KEYS[2]    hash: the last due time pushed, by code; and, by " " and code, that the last tick pushed was asked for by hand;
--            by "+" and code, what a cleaning deleted (see clean.lua)
-- KEYS[3..]  lists of ticks, one a source
-- ARGV[1]    what stands in KEYS[1] while we are the active manager; "" does not ask
-- ARGV[2..]  four for each list: code, due time (all of the same length, so that they compare as text), rule, tick
--   rule: "at" refuses the same due time, "after" that and every earlier one, "now" none (and the due time is not kept)
-- Returns one text for each list: "pushed", "waiting" (the list is not empty), "again" (this due time went out before),
-- or the server's error.
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOTACTIVE the manager\'s key is not ours')
end
local out = {}
for i = 3, #KEYS do
  local a = (i - 3) * 4 + 1
  local code, due, rule, tick = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local last = false
  if rule ~= 'now' then last = redis.pcall('HGET', KEYS[2], code) end
  local waiting = redis.pcall('LLEN', KEYS[i])
  if type(last) == 'table' then
    out[#out + 1] = 'ERR ' .. KEYS[2] .. ': ' .. last.err
  elseif last and (last == due or (rule == 'after' and last > due)) then
    out[#out + 1] = 'again'
  elseif type(waiting) == 'table' then
    out[#out + 1] = waiting.err
  elseif waiting > 0 then
    out[#out + 1] = 'waiting'
  else
    local done = redis.pcall('LPUSH', KEYS[i], tick)
    if type(done) == 'table' then
      out[#out + 1] = done.err
    else
      if rule == 'now' then
        redis.pcall('HSET', KEYS[2], ' ' .. code, '1')
      else
        redis.call('HSET', KEYS[2], code, due)
        redis.call('HDEL', KEYS[2], ' ' .. code, '+' .. code)
      end
      out[#out + 1] = 'pushed'
    end
  end
end
return out
