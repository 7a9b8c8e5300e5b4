package configs

import (
	"slices"
	"strings"
	"testing"
)

func TestProcessorsAreAList(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]int{
		"": nil, "0": {0}, "0-2,5": {0, 1, 2, 5}, "5, 1-1,1": {1, 5}, "1023": {1023},
		"-": {-1}, "a": {-1}, "2-1": {-1}, "1,": {-1}, "1024": {-1}, "0-": {-1}, "1-2-3": {-1},
	} {
		got, err := Limits{CPUs: text}.CPUList()
		if refused := slices.Equal(want, []int{-1}); (err != nil) != refused || !refused && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestLimitsThatCannotBe(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"limits: {memory: 1023KiB}":                   "limits.memory must be at least 1MiB",
		"limits: {memory: -1}":                        "limits.memory must be at least 1MiB",
		"limits: {cpu: 0.009}":                        "limits.cpu must be at least 0.01",
		"limits: {cpus: 3-1}":                         "limits.cpus must be numbers",
		"limits: {open_files: 15}":                    "limits.open_files must be at least 16",
		"limits: {max_age: 59s}":                      "limits.max_age must be at least 1m",
		"{limits: {output_rate: 1}, output: discard}": "limits.output_rate cannot be held",
		"limits: {processes: 0.5}":                    "limits.processes must be a whole number",
		"limits: {cores: 1}":                          "unknown key",
	} {
		_, err := parse("f", []byte("defaults:\n  "+text+"\n"), nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	c, err := parse("f", []byte("defaults:\n  limits: {memory: 1GiB, cpus: 0-1, processes: 8}\nadapters:\n  a: {command: [x], limits: {memory: 1MiB, max_age: 1m, open_files: 16, output_rate: 1KiB, temp_size: 1GB, cpu: 0.01}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Limits{Memory: 1 << 20, CPU: 0.01, CPUs: "0-1", Processes: 8, OpenFiles: 16, TempSize: 1e9, MaxAge: leastAge, OutputRate: 1024}
	if got := c.Adapters["a"].Limits; got != want {
		t.Errorf("%+v", got)
	}
	if held := want.Held(); held.MaxAge != 0 || held.OutputRate != 0 || held.TempSize != 0 || held.Memory != want.Memory || held.OpenFiles != 16 {
		t.Errorf("held %+v", held)
	}
}
