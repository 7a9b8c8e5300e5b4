package main

import (
	"strconv"
	"strings"

	"crawlkeeper/internal/plain"
)

// table is text in aligned columns under a header. What stands in its cells may come from anywhere: it is cleaned.
type table struct {
	columns []column
	rows    [][]cell
}

// column is the head of a column.
type column struct {
	title string
	right bool // numbers
}

// cell is one field of a table.
type cell struct {
	text   string
	colour colour
}

const columnGap = 2

// newTable makes a table with these columns; a title that begins with > is of a column of numbers, which is aligned to the right.
func newTable(titles ...string) *table {
	t := &table{}
	for _, title := range titles {
		name, right := strings.CutPrefix(title, ">")
		t.columns = append(t.columns, column{title: name, right: right})
	}
	return t
}

// add adds a row. Each value is a cell or a string; missing ones are empty.
func (t *table) add(values ...any) {
	row := make([]cell, len(t.columns))
	for i, value := range values {
		switch v := value.(type) {
		case cell:
			row[i] = cell{text: plain.Text(v.text), colour: v.colour}
		case string:
			row[i] = cell{text: plain.Text(v)}
		case int:
			row[i] = cell{text: strconv.Itoa(v)}
		default:
			panic("table: a value is neither cell nor string nor int")
		}
	}
	t.rows = append(t.rows, row)
}

// render returns the table as text. Where the view has a width, lines are cut to it: as a rule in the last column.
func (t *table) render(v view) string {
	head := make([]cell, len(t.columns))
	for i, c := range t.columns {
		head[i] = cell{text: c.title, colour: bold}
	}
	widths := t.widths()
	var b strings.Builder
	for _, row := range append([][]cell{head}, t.rows...) {
		t.renderRow(&b, row, widths, v)
	}
	return b.String()
}

func (t *table) widths() []int {
	widths := make([]int, len(t.columns))
	for i, c := range t.columns {
		widths[i] = textWidth(c.title)
		for _, row := range t.rows {
			widths[i] = max(widths[i], textWidth(row[i].text))
		}
	}
	return widths
}

func (t *table) renderRow(b *strings.Builder, row []cell, widths []int, v view) {
	written, start := 0, 0 // columns of the terminal
	for i, c := range row {
		at := start
		if t.columns[i].right {
			at += widths[i] - textWidth(c.text)
		}
		text := c.text
		if v.width > 0 {
			text = cutText(text, v.width-at)
		}
		if text != "" {
			b.WriteString(strings.Repeat(" ", at-written) + paint(text, c.colour, v))
			written = at + textWidth(text)
		}
		start += widths[i] + columnGap
	}
	b.WriteByte('\n')
}

// paint colours a text where the view has colours.
func paint(text string, c colour, v view) string {
	if c == 0 || !v.colour {
		return text
	}
	return "\x1b[" + strconv.Itoa(int(c)) + "m" + text + "\x1b[0m"
}
