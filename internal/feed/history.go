package feed

import "time"

// history says how far the older pages are to be walked, and how far they were.
type history struct {
	Target   time.Time
	Position time.Time // zero: nothing was walked yet
	// PositionIsDate is set where the position is a day, not a moment.
	PositionIsDate bool
}

// progress is a move in the history.
type progress struct {
	Position time.Time // zero: it stays where it is
	Done     bool
}

// step takes the page before the position. Addresses have whole seconds, so it asks
// for the rest of the position's second too; what is known already is not stored
// twice. Where that brings nothing older it asks once more, strictly before.
func (h history) step(page func(before time.Time) ([]item, error)) ([]item, *progress, error) {
	second := h.Position.Truncate(time.Second)
	var items []item
	for _, before := range []time.Time{second.Add(time.Second), second} {
		older, err := page(before)
		if err != nil {
			return nil, nil, err
		}
		items = append(items, older...)
		if at := oldest(older); !at.IsZero() && at.Before(h.Position) {
			return items, h.after(at), nil
		}
	}
	return items, h.after(time.Time{}), nil
}

// after is the step that a page with this oldest item makes. Without one (zero)
// there are no more pages.
func (h history) after(oldest time.Time) *progress {
	if oldest.IsZero() {
		return &progress{Done: true}
	}
	if !oldest.After(h.Target) {
		return &progress{Position: h.Target, Done: true}
	}
	return &progress{Position: oldest}
}

// oldest is the earliest time of publication, zero where no item has one.
func oldest(items []item) time.Time {
	var at time.Time
	for _, it := range items {
		if !it.Published.IsZero() && (at.IsZero() || it.Published.Before(at)) {
			at = it.Published
		}
	}
	return at
}
