package sql

import (
	"container/list"
	"slices"
	"time"
)

// item is one entry of a queue.
type item[K comparable, V any] struct {
	key       K
	value     V
	seq       uint64    // of the oldest accepted value in it
	notBefore time.Time // put off until then; zero = due
}

// queue holds accepted values in the order of their first acceptance, one for each key: values of one key are merged.
// It is not safe for concurrent use.
type queue[K comparable, V any] struct {
	merge func(earlier, later V) V
	bound int // most items; 0 = none. Beyond it the oldest are dropped.

	order   *list.List // of *item[K, V]
	index   map[K]*list.Element
	dropped uint64
}

func newQueue[K comparable, V any](bound int, merge func(earlier, later V) V) *queue[K, V] {
	return &queue[K, V]{merge: merge, bound: bound, order: list.New(), index: make(map[K]*list.Element)}
}

func (q *queue[K, V]) len() int { return q.order.Len() }

// put accepts a value. One that is merged into an earlier one keeps its place.
func (q *queue[K, V]) put(key K, value V, seq uint64) {
	if e, ok := q.index[key]; ok {
		it := itemOf[K, V](e)
		it.value = q.merge(it.value, value)
		return
	}
	q.index[key] = q.order.PushBack(&item[K, V]{key: key, value: value, seq: seq})
	q.keepBound()
}

// take removes up to n items that are due, the oldest first.
func (q *queue[K, V]) take(n int, now time.Time) (taken []*item[K, V]) {
	for e := q.order.Front(); e != nil && len(taken) < n; {
		next := e.Next()
		if it := itemOf[K, V](e); !it.notBefore.After(now) {
			q.order.Remove(e)
			delete(q.index, it.key)
			taken = append(taken, it)
		}
		e = next
	}
	return taken
}

// restore puts items back in front that were taken and not written. What was accepted meanwhile for the same key is later.
func (q *queue[K, V]) restore(items []*item[K, V], notBefore time.Time) {
	for _, it := range slices.Backward(items) {
		it.notBefore = notBefore
		if e, ok := q.index[it.key]; ok {
			it.value = q.merge(it.value, itemOf[K, V](e).value)
			q.order.Remove(e)
		}
		q.index[it.key] = q.order.PushFront(it)
	}
	q.keepBound()
}

func (q *queue[K, V]) keepBound() {
	for q.bound > 0 && q.order.Len() > q.bound {
		it := itemOf[K, V](q.order.Front())
		q.order.Remove(q.order.Front())
		delete(q.index, it.key)
		q.dropped++
	}
}

// hurry makes due what was put off.
func (q *queue[K, V]) hurry() {
	for e := q.order.Front(); e != nil; e = e.Next() {
		itemOf[K, V](e).notBefore = time.Time{}
	}
}

// left tells what the queue holds of the entries up to a number.
func (q *queue[K, V]) left(last uint64) remainder {
	left := nothingLeft
	for e := q.order.Front(); e != nil; e = e.Next() {
		switch it := itemOf[K, V](e); {
		case it.seq > last:
		case it.notBefore.IsZero():
			return workLeft
		default:
			left = putOffLeft
		}
	}
	return left
}

// nextDue is when the first item is due, if that is before a time; zero times are before all others.
func (q *queue[K, V]) nextDue(before time.Time) time.Time {
	for e := q.order.Front(); e != nil && !before.IsZero(); e = e.Next() {
		if it := itemOf[K, V](e); it.notBefore.Before(before) {
			before = it.notBefore
		}
	}
	return before
}

func itemOf[K comparable, V any](e *list.Element) *item[K, V] { return e.Value.(*item[K, V]) }
