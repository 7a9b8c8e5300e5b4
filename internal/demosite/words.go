package demosite

import (
	"math/rand/v2"
	"strings"
)

var (
	subjects = []string{
		"The harbour", "A ferry", "The old mill", "The council", "A lighthouse keeper", "The night train", "A beekeeper",
		"The weather station", "The museum", "A bakery", "The choir", "The bridge at Łęg", "Café Ö", "The observatory",
	}
	verbs   = []string{"opens", "repairs", "counts", "welcomes", "loses", "finds", "paints", "moves", "remembers", "measures"}
	objects = []string{
		"its oldest clock", "four hundred herons", "the missing anchor", "a new timetable", "the winter market",
		"the longest queue in years", "bread & butter", "an unusual tide", "the last tram", "snow in June", "its own archive",
	}
	endings = []string{
		"after a long debate", "before sunrise", "for the third time", "with help from neighbours", "against all odds",
		"while nobody looked", "and asks for patience", "as it was promised",
	}
)

func title(r *rand.Rand) string {
	return pick(r, subjects) + " " + pick(r, verbs) + " " + pick(r, objects)
}

func sentence(r *rand.Rand) string { return title(r) + " " + pick(r, endings) + "." }

func paragraph(r *rand.Rand) string {
	sentences := make([]string, 3+r.IntN(4))
	for i := range sentences {
		sentences[i] = sentence(r)
	}
	return strings.Join(sentences, " ")
}

func pick(r *rand.Rand, from []string) string { return from[r.IntN(len(from))] }
