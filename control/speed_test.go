package control

import "testing"

// BenchmarkParse is one message of the control channel.
func BenchmarkParse(b *testing.B) {
	text := []byte(`{"action":"restart","source":"example.org","id":"MFRGGZDFMZTWQ2LK","by":"ui: somebody"}`)
	b.ReportAllocs()
	for b.Loop() {
		if _, err := Parse(text); err != nil {
			b.Fatal(err)
		}
	}
}
