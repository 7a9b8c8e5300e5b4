package control

// Cleaning is what the janitor found, and what it removed of that.
type Cleaning struct {
	Kinds    map[string]Count `json:"kinds"`
	Leaks    []Leak           `json:"leaks"`
	More     int              `json:"more,omitempty"`     // leaks that are counted, but not listed
	Problems []string         `json:"problems,omitempty"` // what could not be looked at
}

// Count is how many of one kind there were.
type Count struct {
	Found   int `json:"found"`
	Removed int `json:"removed"`
}

// Leak is one thing that was left behind.
type Leak struct {
	Kind       string  `json:"kind"`
	What       string  `json:"what"`
	Source     string  `json:"source,omitempty"`
	AgeSeconds float64 `json:"age_seconds"`
	Removed    bool    `json:"removed"`
	Why        string  `json:"why,omitempty"` // it was not removed
}
