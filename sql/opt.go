package sql

// Opt is a value of a column in a change: not given (the zero value), null, or a value.
type Opt[T any] struct {
	given bool
	value *T
}

// Some is a given value.
func Some[T any](value T) Opt[T] { return Opt[T]{given: true, value: &value} }

// Null is null, given on purpose.
func Null[T any]() Opt[T] { return Opt[T]{given: true} }

// Given tells whether the column is to be written.
func (o Opt[T]) Given() bool { return o.given }

// Get is the value; false where it is null or not given.
func (o Opt[T]) Get() (T, bool) {
	if o.value == nil {
		var zero T
		return zero, false
	}
	return *o.value, true
}

// or is what a column holds after o: o where it was given, else the earlier change.
func (o Opt[T]) or(earlier Opt[T]) Opt[T] {
	if o.given {
		return o
	}
	return earlier
}
