package main

import (
	"fmt"
	"strings"

	"crawlkeeper/internal/plain"
)

func countLevel(findings []finding, level severity) int {
	n := 0
	for _, f := range findings {
		if f.Level == level {
			n++
		}
	}
	return n
}

func (a *app) showFindingsJSON(findings []finding) error {
	errors, warnings := countLevel(findings, levelBad), countLevel(findings, levelWarn)
	return a.printJSON(struct {
		OK       bool      `json:"ok"`
		Errors   int       `json:"errors"`
		Warnings int       `json:"warnings"`
		Findings []finding `json:"findings"`
	}{errors == 0, errors, warnings, append([]finding{}, findings...)})
}

var severityColours = map[severity]colour{levelBad: red, levelWarn: yellow, levelFine: green}

// showFindings writes a block for each finding: level, check, what, and below what to do.
func (a *app) showFindings(findings []finding) error {
	v := a.view()
	width := 0
	for _, f := range findings {
		width = max(width, textWidth(f.Check))
	}
	const levelWidth = len(levelWarn)
	indent := strings.Repeat(" ", levelWidth+2+width+2)
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(paint(string(f.Level), severityColours[f.Level], v))
		fmt.Fprintf(&b, "%*s  %-*s  ", levelWidth-len(f.Level), "", width, f.Check)
		b.WriteString(strings.Join(wrap(plain.Text(f.What), v.width-len(indent)), "\n"+indent) + "\n")
		if f.Do != "" {
			b.WriteString(indent + "→ " + strings.Join(wrap(plain.Text(f.Do), v.width-len(indent)-2), "\n"+indent+"  ") + "\n")
		}
	}
	fmt.Fprintf(&b, "%s, %s, %d ok\n", countOf(countLevel(findings, levelBad), "error"), countOf(countLevel(findings, levelWarn), "warning"), countLevel(findings, levelFine))
	return a.printf("%s", b.String())
}

// wrap breaks a text at spaces into lines of so many columns; where there is hardly any room it stays as it is.
func wrap(text string, columns int) []string {
	const least = 20
	if columns < least {
		return []string{text}
	}
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && textWidth(line)+1+textWidth(word) > columns {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}

// some lists names, of many only the first.
func some(names []string) string {
	const shown = 5
	if len(names) <= shown+1 {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}
