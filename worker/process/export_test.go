package process

import "path/filepath"

// TurnSlots is how many starts hold descriptors at once.
const TurnSlots = turnSlots

// OwnCgroups lists what is in the directory of a Spawner's cgroups, and that itself.
func OwnCgroups(s *Spawner) []string {
	found, _ := filepath.Glob(s.cgroups.dir + "*")
	below, _ := filepath.Glob(filepath.Join(s.cgroups.dir, "*"))
	return append(found, below...)
}

// Crowd has a Spawner take many processes to live for a while.
func Crowd(s *Spawner) { s.crowd.there(spareFrom) }
