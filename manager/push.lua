-- Pushes a tick into each list that is empty, where this due time was not pushed before.
-- KEYS[1]    hash: the last due time pushed, by code
-- KEYS[2..]  lists of ticks, one a source
-- ARGV       four for each list: code, due time (all of the same length, so that they compare as text), rule, tick
--   rule: "at" refuses the same due time, "after" that and every earlier one, "now" none (and is not remembered)
-- Returns one text for each list: "pushed", "waiting" (the list is not empty), "again" (this due time went out before),
-- or the server's error.
local out = {}
for i = 2, #KEYS do
  local a = (i - 2) * 4
  local code, due, rule, tick = ARGV[a + 1], ARGV[a + 2], ARGV[a + 3], ARGV[a + 4]
  local last = false
  if rule ~= 'now' then last = redis.pcall('HGET', KEYS[1], code) end
  local waiting = redis.pcall('LLEN', KEYS[i])
  if type(last) == 'table' then
    out[#out + 1] = last.err
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
      if rule ~= 'now' then redis.call('HSET', KEYS[1], code, due) end
      out[#out + 1] = 'pushed'
    end
  end
end
return out
