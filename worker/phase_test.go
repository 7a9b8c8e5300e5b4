package worker

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The table of phases stands in the package's documentation, in the contract and as code; they are one.
func TestTheTablesOfPhasesAreOne(t *testing.T) {
	t.Parallel()
	if got, want := slices.Sorted(maps.Keys(moves)), slices.Sorted(slices.Values(Phases)); !slices.Equal(got, want) {
		t.Errorf("the table has %v, Phases %v", got, want)
	}
	for name, table := range map[string]map[Phase][]Phase{"doc.go": documented(t), "the contract": promised(t)} {
		for _, from := range Phases {
			if got, want := slices.Sorted(slices.Values(table[from])), slices.Sorted(slices.Values(moves[from])); !slices.Equal(got, want) {
				t.Errorf("%s: %s goes to %v, the code says %v", name, from, got, want)
			}
		}
		if len(table) != len(moves) {
			t.Errorf("%s has %d phases, the code %d", name, len(table), len(moves))
		}
	}
}

// documented reads the table in doc.go: a phase at the start of a line, and where it goes to below that title.
func documented(t *testing.T) map[Phase][]Phase {
	table := map[Phase][]Phase{}
	start := -1
	for line := range strings.Lines(read(t, "doc.go")) {
		row, ok := strings.CutPrefix(strings.TrimSpace(line), "//\t")
		switch {
		case !ok:
		case strings.HasPrefix(row, "phase "):
			start = strings.Index(row, "goes to")
		case start > 0 && row[0] != ' ' && len(row) > start:
			table[Phase(strings.Fields(row)[0])] = phasesIn(row[start:])
		}
	}
	return table
}

// promised reads the table of the contract, where one row may be for several phases.
func promised(t *testing.T) map[Phase][]Phase {
	_, text, _ := strings.Cut(read(t, "../docs/contract.md"), "\n### Phases\n")
	text, _, _ = strings.Cut(text, "\n#")
	table := map[Phase][]Phase{}
	for line := range strings.Lines(text) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[1], "`") {
			continue
		}
		for _, from := range phasesIn(cells[1]) {
			table[from] = phasesIn(cells[3])
		}
	}
	return table
}

func phasesIn(text string) []Phase {
	var out []Phase
	for _, word := range regexp.MustCompile(`[a-z]+`).FindAllString(text, -1) {
		out = append(out, Phase(word))
	}
	return out
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
