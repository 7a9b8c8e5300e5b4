package configs

import (
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"
)

// setText reads text into a field that is no list and no mapping. The error says what the field wants and, where that cannot be a
// secret, what it got.
func setText(v reflect.Value, text string) error {
	switch target := v.Addr().Interface().(type) {
	case *time.Duration:
		parsed, err := parseDuration(text)
		if err != nil {
			return err
		}
		*target = parsed
		return nil
	case *Size:
		parsed, err := parseSize(text)
		if err != nil {
			return fmt.Errorf("%w, not %s", err, quote(text))
		}
		*target = parsed
		return nil
	}
	ok := true
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		ok = text == "true" || text == "false"
		v.SetBool(text == "true")
	case reflect.Int:
		n, err := strconv.ParseInt(text, 10, 32)
		ok = err == nil
		v.SetInt(n)
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if ok = err == nil && !math.IsNaN(f) && !math.IsInf(f, 0); ok {
			v.SetFloat(f)
		}
	}
	if !ok {
		return fmt.Errorf("must be %s, not %s", wanted(v), quote(text))
	}
	return nil
}

func parseDuration(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err == nil {
		return d, nil
	}
	if _, err := strconv.ParseFloat(text, 64); err == nil {
		return 0, fmt.Errorf("needs a unit, as in %ss or %sm", text, text)
	}
	if days, ok := strings.CutSuffix(text, "d"); ok {
		if n, err := strconv.Atoi(days); err == nil && n > 0 && n < 100_000 {
			return 0, fmt.Errorf("must be in hours, minutes or seconds: %s is %dh", text, 24*n)
		}
	}
	return 0, fmt.Errorf("must be a duration such as 500ms, 15s or 5m, not %s", quote(text))
}

// wanted says what a field takes, in words.
func wanted(v reflect.Value) string {
	switch v.Interface().(type) {
	case time.Duration:
		return "a duration such as 500ms, 15s or 5m"
	case Size:
		return "a size such as 10MiB, 512KiB or 1GB"
	}
	switch v.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.Int:
		return "a whole number"
	case reflect.Float64:
		return "a number"
	}
	return "text"
}

// plainOnly reports whether a field takes no quoted value: one that is no text.
func plainOnly(v reflect.Value) bool {
	switch v.Interface().(type) {
	case time.Duration, Size:
		return false
	}
	return v.Kind() != reflect.String
}
