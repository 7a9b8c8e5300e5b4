package configs

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v4"
)

// syntaxHints say in better words what the YAML library means. They also stand in for those of its messages that quote the file, where a
// secret may be what is quoted.
var syntaxHints = []struct{ in, say string }{
	{"anchor", "an alias (*name) has no anchor (&name) before it; text that begins with * or & stands in quotes"},
	{"alias-data", "an alias (*name) cannot be used here; text that begins with * stands in quotes"},
	{"`", "a tag (!!name) does not fit its value"},
	{"tag", "a tag (!name) is not understood; text that begins with ! stands in quotes"},
	{"cannot start any token", "nothing can begin with this character; indentation is made of spaces, and text that begins with @, ` or % stands in quotes"},
	{"mapping values are not allowed", "a key cannot stand here: the indentation is wrong, or text that holds a colon and a space needs quotes"},
	{"unexpected end of stream", "the closing quote is missing"},
}

// syntaxProblem words an error of the YAML library anew.
func syntaxProblem(err error) Problem {
	found := firstLoadError(err)
	if found == nil {
		return Problem{Message: "is no YAML"}
	}
	at := found.Mark
	if at.Line == 0 {
		at = found.ContextMark
	}
	problem := Problem{Line: max(at.Line, 1), Column: max(at.Column, 1), Message: found.Message}
	if found.ContextMsg != "" {
		problem.Message = found.ContextMsg + ": " + found.Message
	}
	for _, hint := range syntaxHints {
		if strings.Contains(found.Message, hint.in) {
			problem.Message = hint.say
			break
		}
	}
	return problem
}

func firstLoadError(err error) *yaml.LoadError {
	if one, ok := errors.AsType[*yaml.LoadError](err); ok {
		return one
	}
	if many, ok := errors.AsType[*yaml.LoadErrors](err); ok && len(many.Errors) > 0 {
		return many.Errors[0]
	}
	return nil
}
