package configs

import (
	"regexp"
	"testing"

	"go.yaml.in/yaml/v4"
)

// That the metrics exist is checked where they are made; here, that the file is one of rules, each complete and of its own name.
func TestAlerts(t *testing.T) {
	t.Parallel()
	var file struct {
		Groups []struct {
			Name  string `yaml:"name"`
			Rules []struct {
				Alert       string            `yaml:"alert"`
				Expr        string            `yaml:"expr"`
				For         string            `yaml:"for"`
				Labels      map[string]string `yaml:"labels"`
				Annotations map[string]string `yaml:"annotations"`
			} `yaml:"rules"`
		} `yaml:"groups"`
	}
	if err := yaml.Load([]byte(readText(t, "alerts.yaml")), &file, yaml.WithKnownFields()); err != nil {
		t.Fatal(err)
	}
	severity := regexp.MustCompile(`^(critical|warning|info)$`)
	duration := regexp.MustCompile(`^([0-9]+[smhd])?$`)
	balanced := regexp.MustCompile(`^[^()]*$`)
	inner := regexp.MustCompile(`\([^()]*\)`)
	seen := map[string]bool{}
	for _, group := range file.Groups {
		for _, r := range group.Rules {
			if seen[r.Alert] || r.Alert == "" || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: is not alone of its name, or lacks a summary or a description", r.Alert)
			}
			seen[r.Alert] = true
			if !severity.MatchString(r.Labels["severity"]) || !duration.MatchString(r.For) {
				t.Errorf("%s: labels %v, for %q", r.Alert, r.Labels, r.For)
			}
			rest := r.Expr
			for inner.MatchString(rest) {
				rest = inner.ReplaceAllString(rest, "")
			}
			if rest == "" || !balanced.MatchString(rest) {
				t.Errorf("%s: parentheses do not close in %s", r.Alert, r.Expr)
			}
		}
	}
	if len(seen) < 5 {
		t.Errorf("%d rules", len(seen))
	}
}
