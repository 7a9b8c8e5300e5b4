-- Takes or keeps the manager's key.
-- KEYS[1]  string: the active manager
-- ARGV[1]  what we write into it; ARGV[2] its life in ms
-- ARGV[3]  what may stand in it and still be taken (a holder that is dead), or ""
-- Returns "taken", "held", or what stands there.
local now = redis.call('GET', KEYS[1])
if not now or (ARGV[3] ~= '' and now == ARGV[3]) then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 'taken'
end
if now == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 'held'
end
return now
