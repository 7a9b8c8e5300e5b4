package configs

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"regexp"
	"strings"
)

const mask = "***"

// Secret is text that may hold a password. However it is printed, logged or encoded, it shows itself masked; a URL keeps its scheme,
// host and path, so that one can still see where it points. Only [Secret.Reveal] gives the text.
type Secret string

// Reveal returns the text itself. It is for those who connect with it.
func (s Secret) Reveal() string { return string(s) }

// String returns the masked form.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	u, err := url.Parse(string(s))
	// More than one @, or one that did not part a user from a host, means that a password with an unescaped character was torn apart.
	torn := strings.Count(string(s), "@") > 1 || strings.Contains(string(s), "@") && (err != nil || u.User == nil)
	if err != nil || torn || u.Scheme == "" || u.Host+u.Path == "" || u.Opaque != "" {
		return mask
	}
	shown := u.Scheme + "://"
	if u.User != nil {
		shown += mask + "@"
	}
	return shown + u.Host + u.EscapedPath()
}

// GoString returns the masked form.
func (s Secret) GoString() string { return fmt.Sprintf("%q", s.String()) }

// Format writes the masked form for every verb.
func (s Secret) Format(f fmt.State, verb rune) {
	format := fmt.FormatString(f, verb)
	if verb == 'v' {
		format = "%v"
	}
	// An error of the writer is fmt's business, which has no way to hear of it.
	_, _ = fmt.Fprintf(f, format, s.String())
}

// LogValue returns the masked form.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText returns the masked form.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// MarshalYAML returns the masked form.
func (s Secret) MarshalYAML() (any, error) { return s.String(), nil }

// Env is a crawler's own environment. Its values may be secrets: they print masked. It is used as the map that it is.
type Env map[string]string

func (e Env) masked() map[string]string {
	if e == nil {
		return nil
	}
	shown := make(map[string]string, len(e))
	for name := range e {
		shown[name] = mask
	}
	return shown
}

// Format writes the names with masked values for every verb.
func (e Env) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, fmt.Sprint(e.masked())) }

// LogValue returns the names with masked values.
func (e Env) LogValue() slog.Value { return slog.AnyValue(e.masked()) }

// MarshalJSON returns the names with masked values.
func (e Env) MarshalJSON() ([]byte, error) { return json.Marshal(e.masked()) }

// MarshalYAML returns the names with masked values.
func (e Env) MarshalYAML() (any, error) { return e.masked(), nil }

var (
	userInURL    = regexp.MustCompile(`([a-zA-Z][a-zA-Z0-9+.-]*://)\S*@`)
	secretName   = `(?i)[\w.-]*(?:passw(?:or)?d|secret|token|api[_-]?key|credential)[\w.-]*`
	secretPair   = regexp.MustCompile(`(` + secretName + `=).+`)
	secretSwitch = regexp.MustCompile(`^--?` + secretName + `$`)
)

// MaskArgs returns a copy of a command's arguments in which users and passwords in URLs, and values of arguments whose name speaks of a
// password, secret, token or key, are masked. It is for showing and storing commands.
func MaskArgs(argv []string) []string {
	shown := make([]string, len(argv))
	for i, arg := range argv {
		// Most arguments have nothing that the expressions look for, and they are asked at each start and end of a crawler.
		if i > 0 && strings.HasPrefix(argv[i-1], "-") && secretSwitch.MatchString(argv[i-1]) {
			shown[i] = mask
			continue
		}
		if strings.Contains(arg, "@") {
			arg = userInURL.ReplaceAllString(arg, "${1}"+mask+"@")
		}
		if strings.Contains(arg, "=") {
			arg = secretPair.ReplaceAllString(arg, "${1}"+mask)
		}
		shown[i] = arg
	}
	return shown
}
