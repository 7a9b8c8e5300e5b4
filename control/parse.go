package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
)

// MaxSize is the largest message in bytes that is read as a command.
const MaxSize = 64 << 10

// Limits of single fields, in bytes, and of numbers.
const (
	maxCode    = 128
	maxID      = 256
	maxBy      = 256
	maxReason  = 1024
	maxStagger = 24 * time.Hour
	maxDown    = 1_000_000
)

// ParseError says why a message is no command.
type ParseError struct {
	ID      string // the message's id, where it could be read; the asker then gets an error reply
	Problem string // what is wrong, for people
}

// Error is what is wrong, for people.
func (e *ParseError) Error() string { return "bad command: " + e.Problem }

// Parse reads one message of the control channel. The error is always a [*ParseError].
//
// A field that is null counts as absent, of a field that stands twice the last one counts, and unknown fields are ignored, as are
// the fields that the action does not use. Names are compared with their case. A time without a zone is UTC.
func Parse(data []byte) (Command, error) {
	c, err := parse(data)
	if err == nil {
		return c, nil
	}
	id := c.ID
	if id == "" {
		id = findID(data)
	}
	return Command{}, &ParseError{ID: id, Problem: err.Error()}
}

// parse returns the command as far as it could be read beside an error.
func parse(data []byte) (Command, error) {
	if len(data) > MaxSize {
		return Command{}, fmt.Errorf("it has %d bytes, the limit is %d", len(data), MaxSize)
	}
	if !isObject(data) {
		return Command{}, errors.New("it is not a JSON object")
	}
	var f fields
	if err := json.Unmarshal(data, &f); err != nil {
		return Command{}, fmt.Errorf("it is not a JSON object: %w", err)
	}
	return f.command()
}

func isObject(data []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(data, " \t\r\n"), []byte("{"))
}

// fields are the members of the message, not yet looked at.
type fields map[string]json.RawMessage

func (f fields) command() (c Command, err error) {
	if c.ID, err = f.text("id", maxID); err != nil {
		return c, err
	}
	if !usableID(c.ID) {
		c.ID = ""
		return c, errors.New("id holds control characters")
	}
	if c.Action, err = f.text("action", maxCode); err != nil {
		return c, err
	}
	if c.By, err = f.text("by", maxBy); err != nil {
		return c, err
	}
	c.By = oneLine(c.By)
	switch c.Action {
	case ActionReload:
		if !f.has("source") {
			return c, nil
		}
	case ActionJanitor:
		return c, f.decode("remove", "true or false", &c.Remove)
	case ActionStop, ActionStart, ActionResume, ActionTick:
	case ActionPause:
		err = f.pause(&c)
	case ActionRestart:
		err = f.restart(&c)
	case "":
		err = errors.New("it has no action")
	default:
		err = fmt.Errorf("unknown action %q", c.Action)
	}
	if err != nil {
		return c, err
	}
	return c, f.source(&c)
}

func (f fields) pause(c *Command) (err error) {
	if c.Reason, err = f.text("reason", maxReason); err != nil {
		return err
	}
	c.Reason = oneLine(c.Reason)
	until, err := f.text("until", maxCode)
	if err != nil || until == "" {
		return err
	}
	c.Until, err = parseTime(until)
	return err
}

func (f fields) restart(c *Command) error {
	var stagger, down float64
	if err := f.decode("stagger", "a number of seconds", &stagger); err != nil {
		return err
	}
	if stagger < 0 || stagger > maxStagger.Seconds() {
		return fmt.Errorf("stagger is %g, it must be from 0 to %g seconds", stagger, maxStagger.Seconds())
	}
	if err := f.decode("rolling", "true or false", &c.Rolling); err != nil {
		return err
	}
	if err := f.decode("max_down", "a whole number", &down); err != nil {
		return err
	}
	if f.has("max_down") && (down < 1 || down > maxDown || down != math.Trunc(down)) {
		return fmt.Errorf("max_down is %g, it must be a whole number from 1 to %d", down, maxDown)
	}
	c.Stagger, c.MaxDown = time.Duration(math.Round(stagger*float64(time.Second))), int(down)
	return nil
}

// has says whether a field is there and not null.
func (f fields) has(name string) bool {
	raw, ok := f[name]
	return ok && string(raw) != "null"
}

// decode reads a field if it is there; want is its type in words.
func (f fields) decode(name, want string, into any) error {
	if !f.has(name) {
		return nil
	}
	if err := json.Unmarshal(f[name], into); err != nil {
		return fmt.Errorf("%s must be %s", name, want)
	}
	return nil
}

func (f fields) text(name string, limit int) (s string, err error) {
	if err := f.decode(name, "a string", &s); err != nil {
		return "", err
	}
	if len(s) > limit {
		return "", fmt.Errorf("%s has %d bytes, the limit is %d", name, len(s), limit)
	}
	return s, nil
}

// oneLine makes spaces of control characters: the text goes to databases, which refuse NUL, and to terminals.
func oneLine(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, s)
}
