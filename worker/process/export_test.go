package process

// OwnCgroup finds our directory in a hierarchy, for tests that make directories beside it.
var OwnCgroup = readOwnCgroup

// TurnSlots is how many starts hold descriptors at once.
const TurnSlots = turnSlots

// Crowd has a Spawner take many processes to live for a while.
func Crowd(s *Spawner) { s.crowd.there(spareFrom) }
