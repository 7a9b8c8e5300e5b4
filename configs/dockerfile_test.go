package configs

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// instruction is one line of a Dockerfile, with its continuations.
type instruction struct {
	name, rest string
}

// stage is what follows one FROM.
type stage struct {
	base, name string
	lines      []instruction
}

// list returns the exec form of an instruction, or nil where it is in shell form.
func (i instruction) list() []string {
	_, text, _ := strings.Cut(i.rest, "[")
	var words []string
	if json.Unmarshal([]byte("["+text), &words) != nil {
		return nil
	}
	return words
}

func (s stage) last(name string) instruction {
	for _, line := range slices.Backward(s.lines) {
		if line.name == name {
			return line
		}
	}
	return instruction{}
}

// environment returns what ENV sets.
func (s stage) environment() map[string]string {
	found := map[string]string{}
	for _, line := range s.lines {
		if line.name == "ENV" {
			for pair := range strings.FieldsSeq(line.rest) {
				name, value, _ := strings.Cut(pair, "=")
				found[name] = value
			}
		}
	}
	return found
}

// parseDockerfile reads as much of the format as our Dockerfile uses.
func parseDockerfile(t *testing.T, text string) []stage {
	t.Helper()
	var stages []stage
	var open string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if part, more := strings.CutSuffix(line, `\`); more {
			open += part + " "
			continue
		}
		name, rest, _ := strings.Cut(open+line, " ")
		open = ""
		if name == "FROM" {
			words := strings.Fields(rest)
			s := stage{base: words[0]}
			if len(words) == 3 && words[1] == "AS" {
				s.name = words[2]
			}
			stages = append(stages, s)
			continue
		}
		if len(stages) == 0 || name != strings.ToUpper(name) {
			t.Fatalf("Dockerfile: no instruction: %s", line)
		}
		last := &stages[len(stages)-1]
		last.lines = append(last.lines, instruction{name, strings.TrimSpace(rest)})
	}
	if open != "" || len(stages) == 0 {
		t.Fatal("Dockerfile: ends in the middle of an instruction, or has no stage")
	}
	return stages
}

func finalStage(t *testing.T) (stage, []stage) {
	t.Helper()
	stages := parseDockerfile(t, readText(t, "../Dockerfile"))
	return stages[len(stages)-1], stages
}

func TestDockerfileStages(t *testing.T) {
	t.Parallel()
	final, stages := finalStage(t)
	if len(stages) < 3 {
		t.Errorf("%d stages", len(stages))
	}
	var known []string
	for _, s := range stages {
		if !slices.Contains(known, s.base) && !strings.Contains(s.base, ":") {
			t.Errorf("stage %q begins with %s, which is neither an image with a tag nor an earlier stage", s.name, s.base)
		}
		for _, line := range s.lines {
			if from, _, ok := strings.Cut(strings.TrimPrefix(line.rest, "--from="), " "); line.name == "COPY" && ok && from != "" && strings.HasPrefix(line.rest, "--from=") && !slices.Contains(known, from) {
				t.Errorf("COPY --from=%s: no such stage before it", from)
			}
		}
		known = append(known, s.name)
	}
	if strings.HasPrefix(final.base, "golang") {
		t.Error("the image carries the compiler")
	}
	build := stages[0].last("RUN").rest
	if target := build[strings.LastIndex(build, " ")+1:]; target != "./cmd/crawlkeeper" {
		t.Errorf("the build makes %s", target)
	}
}

func TestDockerfileRuns(t *testing.T) {
	t.Parallel()
	final, _ := finalStage(t)
	user := final.last("USER").rest
	if uid, _, _ := strings.Cut(user, ":"); uid == "" || uid == "0" || strings.Trim(uid, "0123456789") != "" {
		t.Errorf("USER %s is no number of an ordinary user", user)
	}
	if got := final.last("ENTRYPOINT").list(); !slices.Equal(got, []string{"crawlkeeper"}) {
		t.Errorf("ENTRYPOINT %q: only the exec form makes crawlkeeper PID 1", got)
	}
	if got := final.last("CMD").list(); !slices.Equal(got, []string{"run"}) {
		t.Errorf("CMD %q", got)
	}
	if got := final.last("STOPSIGNAL").rest; got != "SIGTERM" {
		t.Errorf("STOPSIGNAL %s", got)
	}
	health := final.last("HEALTHCHECK")
	if got := health.list(); !slices.Equal(got, []string{"crawlkeeper", "health"}) {
		t.Errorf("HEALTHCHECK %s", health.rest)
	}
	for word := range strings.FieldsSeq(health.rest) {
		if name, value, ok := strings.Cut(word, "="); ok && name != "--retries" {
			if d, err := time.ParseDuration(value); err != nil || d <= 0 {
				t.Errorf("HEALTHCHECK %s: %v", word, err)
			}
		}
	}
}

// The variables of the image are variables of the configuration, and the port that it shows is the one that is listened on.
func TestDockerfileFitsTheConfiguration(t *testing.T) {
	t.Parallel()
	final, _ := finalStage(t)
	var environ []string
	for name, value := range final.environment() {
		environ = append(environ, name+"="+value)
	}
	c := mustParse(t, readText(t, exampleFile), environ...)
	if c.HTTP.Listen != "0.0.0.0:"+final.last("EXPOSE").rest {
		t.Errorf("listens on %s, EXPOSE %s", c.HTTP.Listen, final.last("EXPOSE").rest)
	}
	if file := final.environment()["CRAWLKEEPER_CONFIG"]; !slices.ContainsFunc(final.lines, func(line instruction) bool {
		return line.name == "COPY" && line.rest == "configs/"+exampleFile+" "+file
	}) {
		t.Errorf("CRAWLKEEPER_CONFIG=%s is no file of the image", file)
	}
	if module := final.environment()["SCRAPY_SETTINGS_MODULE"]; module != "" {
		if _, err := os.Stat("../examples/scrapy/" + strings.ReplaceAll(module, ".", "/") + ".py"); err != nil {
			t.Errorf("SCRAPY_SETTINGS_MODULE: %v", err)
		}
	}
}

func TestDockerfileCopiesWhatIsThere(t *testing.T) {
	t.Parallel()
	ignored := strings.Fields(readText(t, "../.dockerignore"))
	_, stages := finalStage(t)
	copies := 0
	for _, s := range stages {
		for _, line := range s.lines {
			if line.name != "COPY" || strings.HasPrefix(line.rest, "--from=") {
				continue
			}
			words := strings.Fields(line.rest)
			for _, source := range words[:len(words)-1] {
				copies++
				if found, err := filepath.Glob("../" + source); err != nil || len(found) == 0 {
					t.Errorf("COPY %s: not in the repository", source)
				}
				for part := source; part != "."; part = path.Dir(part) {
					if slices.Contains(ignored, part) || slices.Contains(ignored, "**/"+path.Base(part)) {
						t.Errorf("COPY %s: .dockerignore leaves it out", source)
					}
				}
			}
		}
	}
	if copies < 4 {
		t.Errorf("found only %d files to copy", copies)
	}
}

func TestDockerfileParser(t *testing.T) {
	t.Parallel()
	got := parseDockerfile(t, "# x\nFROM a:1 AS b\nRUN one \\\n  two\n\nENV A=1 B=2\nFROM b\nCMD [\"x\", \"y z\"]\nHEALTHCHECK --interval=1s CMD [\"h\"]\nCMD sh\n")
	if len(got) != 2 || got[0].name != "b" || got[0].lines[0].rest != "one  two" || got[0].environment()["B"] != "2" || got[1].base != "b" {
		t.Errorf("stages %+v", got)
	}
	lines := got[1].lines
	if !slices.Equal(lines[0].list(), []string{"x", "y z"}) || !slices.Equal(lines[1].list(), []string{"h"}) || lines[2].list() != nil {
		t.Errorf("lists of %+v", lines)
	}
}
