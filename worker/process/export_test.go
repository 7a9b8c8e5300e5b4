package process

// OwnCgroup finds our directory in a hierarchy, for tests that make directories beside it.
var OwnCgroup = readOwnCgroup

// TurnSlots is how many starts hold descriptors at once.
const TurnSlots = turnSlots
