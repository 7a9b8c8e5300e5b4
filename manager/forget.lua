-- Deletes all that the manager keeps for one source that was deleted.
-- KEYS[1]  string: the active manager
-- KEYS[2]  hash of due times; its fields of a source are the code, alone and behind each of " ", "-" and "+"
-- KEYS[3..] keys of any type
-- ARGV[1]  what stands in KEYS[1] while we are the active manager; "" does not ask
-- ARGV[2]  code
if ARGV[1] ~= '' and redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return redis.error_reply('NOTACTIVE the manager\'s key is not ours')
end
local code = ARGV[2]
redis.call('HDEL', KEYS[2], code, ' ' .. code, '-' .. code, '+' .. code)
for i = 3, #KEYS do redis.call('DEL', KEYS[i]) end
return 'forgotten'
