package configs

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v4"
)

// composeService is what the tests look at in a service of compose.yaml.
type composeService struct {
	Image       string            `yaml:"image"`
	Build       map[string]string `yaml:"build"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	Restart     string            `yaml:"restart"`
	Init        *bool             `yaml:"init"`
	StopGrace   time.Duration     `yaml:"stop_grace_period"`
	StopSignal  string            `yaml:"stop_signal"`
	Healthcheck struct {
		Test        []string      `yaml:"test"`
		Interval    time.Duration `yaml:"interval"`
		Timeout     time.Duration `yaml:"timeout"`
		StartPeriod time.Duration `yaml:"start_period"`
		Retries     int           `yaml:"retries"`
		Disable     bool          `yaml:"disable"`
	} `yaml:"healthcheck"`
	DependsOn map[string]struct {
		Condition string `yaml:"condition"`
	} `yaml:"depends_on"`
	Ulimits     map[string]int `yaml:"ulimits"`
	SecurityOpt []string       `yaml:"security_opt"`
}

type composeFile struct {
	Name     string                    `yaml:"name"`
	Template any                       `yaml:"x-crawlkeeper"`
	Services map[string]composeService `yaml:"services"`
	Volumes  map[string]any            `yaml:"volumes"`
}

func loadCompose(t *testing.T) composeFile {
	t.Helper()
	var file composeFile
	if err := yaml.Load([]byte(readText(t, "compose.yaml")), &file, yaml.WithKnownFields()); err != nil {
		t.Fatalf("compose.yaml: %v", err)
	}
	return file
}

// environ expands the ${NAME:-default} of compose and returns the variables of a service as a process has them.
func (s composeService) environ() []string {
	var entries []string
	for name, value := range s.Environment {
		for strings.Contains(value, "${") {
			before, rest, _ := strings.Cut(value, "${")
			inner, after, _ := strings.Cut(rest, "}")
			_, fallback, _ := strings.Cut(inner, ":-")
			value = before + fallback + after
		}
		entries = append(entries, name+"="+value)
	}
	return entries
}

// mounted returns the file of this repository that a service sees at a path.
func (s composeService) mounted(t *testing.T, target string) string {
	t.Helper()
	for _, volume := range s.Volumes {
		if parts := strings.Split(volume, ":"); len(parts) > 1 && parts[1] == target {
			return filepath.Clean(parts[0])
		}
	}
	t.Fatalf("nothing is mounted at %s", target)
	return ""
}

// configured returns the configuration that the service of a command runs with.
func (s composeService) configured(t *testing.T) *Config {
	t.Helper()
	i := slices.Index(s.Command, "--config")
	if i < 0 || i+1 >= len(s.Command) {
		t.Fatalf("command %q names no configuration", s.Command)
	}
	return mustParse(t, readText(t, s.mounted(t, s.Command[i+1])), s.environ()...)
}

func TestComposeStopsInTime(t *testing.T) {
	t.Parallel()
	s := loadCompose(t).Services["crawlkeeper"]
	if need := s.configured(t).StopWithin(); s.StopGrace <= need {
		t.Errorf("stop_grace_period %s is not longer than the %s that a stop may take", s.StopGrace, need)
	}
	if s.Init != nil && *s.Init {
		t.Error("crawlkeeper is not PID 1")
	}
	if s.StopSignal != "" && s.StopSignal != "SIGTERM" {
		t.Errorf("stop_signal %s", s.StopSignal)
	}
}

func TestComposeManager(t *testing.T) {
	t.Parallel()
	file := loadCompose(t)
	s, migrate := file.Services["crawlkeeper"], file.Services["migrate"]
	if s.Command[0] != "run" || migrate.Command[0] != "migrate" || s.Image != migrate.Image || s.Image == "" {
		t.Errorf("commands %q and %q of %s and %s", s.Command, migrate.Command, s.Image, migrate.Image)
	}
	if found, _ := filepath.Glob(filepath.Join(s.Build["context"], "Dockerfile")); len(found) == 0 {
		t.Errorf("no Dockerfile in %q", s.Build["context"])
	}
	if s.Restart != "unless-stopped" && s.Restart != "always" {
		t.Errorf("restart %s", s.Restart)
	}
	if !strings.HasPrefix(migrate.Restart, "on-failure") && migrate.Restart != "no" {
		t.Errorf("a migration that is done is started again: restart %s", migrate.Restart)
	}
	health := s.Healthcheck
	if !slices.Equal(health.Test[:3], []string{"CMD", "crawlkeeper", "health"}) || health.Interval <= 0 || health.Timeout <= 0 || health.Retries < 1 {
		t.Errorf("healthcheck %+v", health)
	}
	if !migrate.Healthcheck.Disable {
		t.Error("the migration has the manager's healthcheck")
	}
	for name, want := range map[string]string{"migrate": "service_completed_successfully", "redis": "service_healthy"} {
		if got := s.DependsOn[name].Condition; got != want {
			t.Errorf("depends on %s: %q", name, got)
		}
	}
	if migrate.DependsOn["postgres"].Condition != "service_healthy" {
		t.Error("the migration does not wait for Postgres")
	}
}

// The URLs name services of the file, and the port that is published is the one that is listened on.
func TestComposeNamesAndPorts(t *testing.T) {
	t.Parallel()
	file := loadCompose(t)
	for _, name := range []string{"crawlkeeper", "migrate"} {
		c := file.Services[name].configured(t)
		for _, url := range []Secret{c.Redis.URL, c.Postgres.URL} {
			host := strings.TrimPrefix(url.String()[strings.Index(url.String(), "://")+3:], mask+"@")
			host, _, _ = strings.Cut(host, ":")
			s, ok := file.Services[host]
			if !ok || s.Restart != "unless-stopped" || len(s.Healthcheck.Test) == 0 || len(s.Volumes) == 0 {
				t.Errorf("%s: the service %s of %s is missing, or has no restart policy, healthcheck or volume", name, host, url)
				continue
			}
			if volume, _, _ := strings.Cut(s.Volumes[0], ":"); !hasKey(file.Volumes, volume) {
				t.Errorf("%s: volume %s is not declared", host, volume)
			}
		}
	}
	c := file.Services["crawlkeeper"].configured(t)
	listen := strings.Split(c.HTTP.Listen, ":")
	published := strings.Split(file.Services["crawlkeeper"].Ports[0], ":")
	if listen[0] != "0.0.0.0" || published[len(published)-1] != listen[1] {
		t.Errorf("listens on %s, publishes %v", c.HTTP.Listen, published)
	}
	if published[0] != "127.0.0.1" {
		t.Errorf("the port, which knows no passwords, is published on %s", published[0])
	}
	pg := file.Services["postgres"]
	if want := pg.Environment["POSTGRES_USER"] + ":" + pg.Environment["POSTGRES_PASSWORD"] + "@postgres:5432/" + pg.Environment["POSTGRES_DB"]; !strings.Contains(file.Services["crawlkeeper"].Environment["CRAWLKEEPER_POSTGRES_URL"], want) {
		t.Errorf("the URL of Postgres does not fit its service: %s", want)
	}
}

func hasKey[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}
