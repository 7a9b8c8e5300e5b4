package configs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

func TestSecretShowsWhereItPoints(t *testing.T) {
	t.Parallel()
	for text, want := range map[Secret]string{
		"":                                     "",
		"redis://127.0.0.1:6379/0":             "redis://127.0.0.1:6379/0",
		"redis://:hunter2@host:6379/0":         "redis://***@host:6379/0",
		"redis://hunter2@host":                 "redis://***@host",
		"postgres://u:hunter2@h/d?sslmode=x":   "postgres://***@h/d",
		"postgres://h/d?password=hunter2":      "postgres://h/d",
		"unix:///run/redis.sock?password=h":    "unix:///run/redis.sock",
		"redis+sentinel://u:h@a/0?master=m":    "redis+sentinel://***@a/0",
		"hunter2":                              "***",
		"host=h password=hunter2":              "***",
		"redis://u:hun/ter2@host/0":            "***", // torn at the slash
		"redis://u:12/hunter2@host/0":          "***",
		"redis://u:12#hunter2@host/0":          "***",
		"redis://u:12?hunter2@host/0":          "***",
		"redis://u:hunter2@hunter3@host/0":     "***",
		"redis:hunter2":                        "***",
		"redis+sentinel://u:hunter2@a:1,b:2/0": "redis+sentinel://***@a:1,b:2/0",
	} {
		if got := text.String(); got != want {
			t.Errorf("%q shows as %q, want %q", string(text), got, want)
		}
	}
}

// Whatever prints a configuration, no password of it comes out.
func TestNothingPrintsASecret(t *testing.T) {
	t.Parallel()
	c := mustParse(t, `
redis: {url: "redis://:hunter2@h/0"}
postgres: {url: "postgres://u:hunter2@h/d"}
adapters: {a: {command: [x], env: {TOKEN: hunter2}}}
`)
	printed := map[string]string{}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%10s"} {
		printed["Config "+verb] = fmt.Sprintf(verb, *c)
		printed["Secret "+verb] = fmt.Sprintf(verb, c.Redis.URL)
		printed["*Secret "+verb] = fmt.Sprintf(verb, &c.Redis.URL)
		printed["Env "+verb] = fmt.Sprintf(verb, c.Adapters["a"].Env)
	}
	printed["Print"] = fmt.Sprint(c.Redis.URL, c.Adapters["a"].Env)
	asJSON, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	printed["json"] = string(asJSON)
	asYAML, err := yaml.Dump(c)
	if err != nil {
		t.Fatal(err)
	}
	printed["yaml"] = string(asYAML)
	var log bytes.Buffer
	for _, h := range []slog.Handler{slog.NewTextHandler(&log, nil), slog.NewJSONHandler(&log, nil)} {
		slog.New(h).Info("x", "url", c.Redis.URL, "config", c, "env", c.Adapters["a"].Env, "adapter", c.Adapters["a"])
	}
	printed["slog"] = log.String()
	hex := fmt.Sprintf("%x", "hunter2")
	for how, text := range printed {
		if strings.Contains(text, "hunter2") || strings.Contains(strings.ToLower(text), hex) {
			t.Errorf("%s shows the secret: %s", how, text)
		}
		if !strings.Contains(text, "h/0") && strings.HasPrefix(how, "Secret %s") {
			t.Errorf("%s hides the host: %s", how, text)
		}
	}
	if c.Redis.URL.Reveal() != "redis://:hunter2@h/0" || c.Adapters["a"].Env["TOKEN"] != "hunter2" {
		t.Error("the secrets themselves are gone")
	}
}

func TestNoErrorQuotesASecret(t *testing.T) {
	t.Parallel()
	for _, url := range []string{
		"hunter2", "hunter2://", "redis://u:hunter2/@h", "redis://u:hunter2@h:port", "redis://h:hunter2", "redis://h/hunter2", "redis://%hunter2@h",
		"redis+sentinel://u:hunter2@", "redis+sentinel://u:%hunter2@h", "redis+sentinel://h/hunter2?master=m", "redis+sentinel://h/?%hunter2",
		"redis+sentinel://hunter2:x/", "unix://hunter2", "[hunter2]", "{hunter2: x}", "!hunter2 x", "*hunter2", "!!int hunter2", "'hunter2", "@hunter2",
	} {
		for _, section := range []string{"redis", "postgres"} {
			text := section + ": {url: " + url + "}"
			err := parseError(text)
			if err == "" && section == "redis" {
				t.Errorf("%s is no error", text)
			}
			if strings.Contains(err, "hunter2") && !strings.HasPrefix(url, "hunter2://") && !strings.HasPrefix(url, "{") {
				t.Errorf("%s is quoted: %s", text, err)
			}
		}
	}
}

func TestMaskArgs(t *testing.T) {
	t.Parallel()
	given := []string{
		"crawl", "--proxy=http://u:hunter2@p:1/x", "-a", "api_key=hunter2", "--password", "hunter2", "-s", "MY_TOKEN=hunter2", "--secret-file", "hunter2",
		"https://h/a?b=c", "source_code=x", "tokens", "kept",
	}
	want := []string{
		"crawl", "--proxy=http://***@p:1/x", "-a", "api_key=***", "--password", "***", "-s", "MY_TOKEN=***", "--secret-file", "***",
		"https://h/a?b=c", "source_code=x", "tokens", "kept",
	}
	before := slices.Clone(given)
	if got := MaskArgs(given); !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if !slices.Equal(given, before) {
		t.Error("the command itself was changed")
	}
}
