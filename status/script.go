package status

import "github.com/redis/go-redis/v9"

// writeScript changes the status hash and says what it found.
//
//	KEYS[1]  the status hash
//	KEYS[2]  the manager's key, a string; not given where ARGV[1] is ""
//	ARGV[1]  what the manager's key must hold if it exists, "" leaves the check out
//	ARGV[2]  the hash's time to live in milliseconds
//	ARGV[3]  "1" if the hash may be missing, "0" if it must exist
//	ARGV[4]  a field to look at, "" for none
//	ARGV[5]  what it must hold
//	ARGV[6]  n, how many of the following are fields to delete
//	ARGV[7]… n fields to delete, then pairs of field and value to set
//
// It returns the number of fields that the hash then has; -1 without a change where the manager's key is in other hands; -2 without
// a change where the hash is missing but must exist, or the field does not hold what it must; and the name of the type, without a
// change, where the key is no hash.
var writeScript = redis.NewScript(`
if ARGV[1] ~= '' then
  local holder = redis.call('GET', KEYS[2])
  if holder and holder ~= ARGV[1] then return -1 end
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then
  if ARGV[3] == '0' then return -2 end
elseif kind ~= 'hash' then
  return kind
end
if ARGV[4] ~= '' and redis.call('HGET', KEYS[1], ARGV[4]) ~= ARGV[5] then return -2 end
local first = 7 + tonumber(ARGV[6])
for i = 7, first - 1 do redis.call('HDEL', KEYS[1], ARGV[i]) end
for i = first, #ARGV, 2 do redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 1]) end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return redis.call('HLEN', KEYS[1])
`)

// What writeScript and deleteScript return in the place of a number of fields.
const (
	inOtherHands = -1
	hashLost     = -2
)

// deleteScript deletes the status hash.
//
//	KEYS[1]  the status hash
//	KEYS[2]  the manager's key, a string; not given where ARGV[1] is ""
//	ARGV[1]  what the manager's key must hold if it exists, "" leaves the check out
//
// It returns 0 when the hash is gone, -1 where the manager's key is in other hands, and the name of the type where the key is no hash.
var deleteScript = redis.NewScript(`
if ARGV[1] ~= '' then
  local holder = redis.call('GET', KEYS[2])
  if holder and holder ~= ARGV[1] then return -1 end
end
local kind = redis.call('TYPE', KEYS[1]).ok
if kind ~= 'none' and kind ~= 'hash' then return kind end
redis.call('DEL', KEYS[1])
return 0
`)
