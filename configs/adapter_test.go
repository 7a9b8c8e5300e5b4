package configs

import (
	"slices"
	"testing"
)

func TestAdapterOfASource(t *testing.T) {
	t.Parallel()
	c := mustParse(t, "adapters: {'*': {command: [all]}, rss: {command: [rss]}}")
	for name, want := range map[string]string{"rss": "rss", "": "all", "unknown": "all", "*": "all"} {
		if a, ok := c.Adapter(name); !ok || a.Command[0] != want {
			t.Errorf("adapter %q is %v, %v", name, a.Command, ok)
		}
	}
	c = mustParse(t, "adapters: {rss: {command: [rss]}}")
	if a, ok := c.Adapter("unknown"); ok {
		t.Errorf("an adapter that nobody names: %v", a.Command)
	}
}

func TestArgv(t *testing.T) {
	t.Parallel()
	a := Adapter{Command: []string{"x", "{code}", "a={code},b={code}", "{Code}"}}
	if got, want := a.Argv("s{code}1"), []string{"x", "s{code}1", "a=s{code}1,b=s{code}1", "{Code}"}; !slices.Equal(got, want) {
		t.Errorf("argv %q, want %q", got, want)
	}
	if a.Command[1] != "{code}" {
		t.Error("the adapter's own command was changed")
	}
}

func TestInherit(t *testing.T) {
	t.Parallel()
	environ := []string{
		"PATH=/bin", "LC_ALL=C", "LC_=x", "LANG=C=D", "EMPTY=", "BARE",
		"CRAWLKEEPER_REDIS_URL=s", "CRAWLKEEPER_REDIS_URL_FILE=s", "CRAWLKEEPER_POSTGRES_URL=s", "CRAWLKEEPER_POSTGRES_URL_FILE=s",
		"CRAWLKEEPER_SOURCE=other", "CRAWLKEEPER_HTTP_LISTEN=:1",
	}
	for _, tc := range []struct{ names, want []string }{
		{[]string{"*"}, []string{"PATH=/bin", "LC_ALL=C", "LC_=x", "LANG=C=D", "EMPTY=", "BARE", "CRAWLKEEPER_HTTP_LISTEN=:1"}},
		{[]string{"PATH", "LC_*", "EMPTY"}, []string{"PATH=/bin", "LC_ALL=C", "LC_=x", "EMPTY="}},
		{[]string{"CRAWLKEEPER_REDIS_URL", "CRAWLKEEPER_P*"}, nil},
		{[]string{"L"}, nil},
		{nil, nil},
	} {
		if got := (Adapter{EnvInherit: tc.names}).Inherit(environ); !slices.Equal(got, tc.want) {
			t.Errorf("%q inherits %q, want %q", tc.names, got, tc.want)
		}
	}
}

func TestSizes(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Size{
		"0": 0, "7": 7, "7B": 7, "10MiB": 10 << 20, "10 MiB": 10 << 20, "1GB": 1e9, "3kB": 3000, "3KB": 3000, "2GiB": 2 << 30, "-1KiB": -1024,
	} {
		got, err := parseSize(text)
		if err != nil || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, err, want)
		}
		if again, err := parseSize(got.String()); err != nil || again != got {
			t.Errorf("%s, written as %s, is %d again, %v", text, got, again, err)
		}
	}
	for _, text := range []string{"", "MiB", "1.5MiB", "1 TB", "10Mb", "9999999999GiB", "1e3", "99999999999999999999"} {
		if got, err := parseSize(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
}
