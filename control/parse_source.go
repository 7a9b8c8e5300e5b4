package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode"
)

// source reads the field `source`: a code, a list of codes, `adapter:NAME` or `all`.
func (f fields) source(c *Command) error {
	if !f.has("source") {
		return errors.New("it has no source")
	}
	raw := f["source"]
	var one string
	if json.Unmarshal(raw, &one) == nil {
		return c.selectOne(one)
	}
	var list []string
	if raw[0] != '[' || json.Unmarshal(raw, &list) != nil {
		return errors.New("source must be a code, a list of codes, adapter:NAME or all")
	}
	return c.selectList(list)
}

func (c *Command) selectOne(s string) error {
	if s == All {
		c.All = true
		return nil
	}
	if name, ok := strings.CutPrefix(s, adapterPrefix); ok {
		c.Adapter = name
		return checkName("adapter", name)
	}
	c.Sources = []string{s}
	return checkName("source", s)
}

func (c *Command) selectList(list []string) error {
	if len(list) == 0 {
		return errors.New("source is an empty list")
	}
	seen := make(map[string]bool, len(list))
	for _, code := range list {
		if code == All || strings.HasPrefix(code, adapterPrefix) {
			return fmt.Errorf("a list of sources holds codes only, not %q", code)
		}
		if err := checkName("source", code); err != nil {
			return err
		}
		if !seen[code] {
			seen[code] = true
			c.Sources = append(c.Sources, code)
		}
	}
	return nil
}

// checkName refuses what can be no name at all. Whether there is such a source only the manager knows.
func checkName(what, name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%s is empty", what)
	case len(name) > maxCode:
		return fmt.Errorf("%s has %d bytes, the limit is %d", what, len(name), maxCode)
	case strings.ContainsFunc(name, unicode.IsControl):
		return fmt.Errorf("%s %q holds control characters", what, name)
	}
	return nil
}
