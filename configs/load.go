package configs

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"go.yaml.in/yaml/v4"
)

const (
	maxFile   = 4 << 20  // bytes of a configuration file
	maxSecret = 64 << 10 // bytes of a file that holds a URL
)

// Load returns the built-in defaults, changed by the file at path (none where path is empty) and then by the CRAWLKEEPER_… variables in
// environ, which has the form of [os.Environ]. A variable that is set to nothing counts as not set.
//
// What is wrong with them comes back as one [*Error] that lists all problems. After Load the URLs are complete (url_file was read) and
// the manager has a name.
func Load(path string, environ []string) (*Config, error) {
	var data []byte
	if path != "" {
		var err error
		if data, err = readFile(path, maxFile); err != nil {
			return nil, fmt.Errorf("read configuration: %w", err)
		}
	}
	return parse(path, data, environ)
}

func parse(file string, data []byte, environ []string) (*Config, error) {
	c := Default()
	root, err := compose(data)
	if err != nil {
		return nil, asError(file, []Problem{syntaxProblem(err)})
	}
	problems := c.decode(root)
	problems = append(problems, c.readEnviron(environ)...)
	problems = append(problems, c.readURLs()...)
	problems = append(problems, c.readHookSecrets(environ)...)
	problems = append(problems, without(c.check(), problems)...)
	if err := asError(file, problems); err != nil {
		return nil, err
	}
	if c.Manager.Name == "" {
		if c.Manager.Name, err = os.Hostname(); err != nil {
			return nil, fmt.Errorf("read the host's name for manager.name: %w", err)
		}
	}
	return c, nil
}

// compose reads the only document of the file. It returns nil for a file without one.
func compose(data []byte) (*yaml.Node, error) {
	var docs []yaml.Node
	if err := yaml.Load(data, &docs, yaml.WithAllDocuments()); err != nil {
		return nil, err
	}
	if len(docs) > 1 {
		second := &docs[1]
		return nil, &yaml.LoadError{
			Message: "a second document begins; the whole configuration stands in one",
			Mark:    yaml.Mark{Line: second.Line, Column: second.Column},
		}
	}
	if len(docs) == 0 || len(docs[0].Content) == 0 {
		return nil, nil
	}
	return docs[0].Content[0], nil
}

// without returns those of the later problems that are no mere consequence of an earlier one: at the same key, around it, or in its list.
func without(later, earlier []Problem) []Problem {
	known := map[string]bool{}
	for _, e := range earlier {
		list, _, _ := strings.Cut(e.Key, "[")
		known[e.Key], known[list] = true, true
	}
	var kept []Problem
	for _, l := range later {
		around := l.Key
		for around != "" && !known[around] {
			around = around[:max(0, strings.LastIndexByte(around, '.'))]
		}
		if around == "" {
			kept = append(kept, l)
		}
	}
	return kept
}

// readURLs takes the URLs from the files that stand in their place. Where both are set the later layer wins; in one layer that is an error.
func (c *Config) readURLs() []Problem {
	return append(
		c.readURL("redis", &c.Redis.URL, &c.Redis.URLFile),
		c.readURL("postgres", &c.Postgres.URL, &c.Postgres.URLFile)...)
}

func (c *Config) readURL(section string, target *Secret, file *string) []Problem {
	if *file == "" {
		return nil
	}
	key := section + ".url_file"
	at := c.where[key]
	if url, both := c.where[section+".url"]; both {
		fromEnv, fileFromEnv := url.variable != "", at.variable != ""
		switch {
		case fromEnv == fileFromEnv:
			return []Problem{at.problem(key, "stands beside %s.url; one of the two must go", section)}
		case fromEnv:
			*file = ""
			return nil
		}
	}
	text, err := readSecret(*file)
	if err != nil {
		return []Problem{at.problem(key, "%v", err)}
	}
	*target = text
	c.where[section+".url"] = at
	return nil
}

// readSecret reads a file that holds nothing but a secret. The error goes on after the name of its key.
func readSecret(path string) (Secret, error) {
	data, err := readFile(path, maxSecret)
	if err != nil {
		return "", fmt.Errorf("cannot be read: %w", err)
	}
	text := strings.TrimRight(string(data), "\r\n")
	if text == "" {
		return "", errors.New("names an empty file")
	}
	return Secret(text), nil
}

// readFile reads a regular file of at most so many bytes, as root only one that nobody else may change.
func readFile(path string, most int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", path)
	}
	if info.Size() > most {
		return nil, fmt.Errorf("%s has more than %d bytes", path, most)
	}
	if w, needed := trusted(); needed {
		if err := w.check(path); err != nil {
			return nil, err
		}
	}
	return os.ReadFile(path)
}
