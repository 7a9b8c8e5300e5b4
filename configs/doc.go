// Package configs owns the configuration of crawlkeeper: the built-in defaults ([Default]), the strict load of a file and of the
// environment ([Load]) and the rules that every configuration obeys ([Config.Validate]). Beside the code lie the commented example
// (crawlkeeper.yaml), its JSON schema for editors, the compose and Kubernetes files and the alert rules.
//
// What holds:
//
//   - Later layers win: built-in defaults, then the file, then CRAWLKEEPER_… variables; flags are applied by the caller, who then calls Validate.
//   - An adapter is the built-in defaults, then the block `defaults`, then the adapter's own keys. Lists are replaced, mappings are
//     merged key by key. An empty value (`dir:`) leaves what was there.
//   - Nothing is guessed: an unknown key, a duplicate key, a wrong type or a broken rule is an error, and all of them are reported at
//     once, each with the line and column of the file or the name of the variable that it came from.
//   - A value that may hold a password is a [Secret]: it prints masked, and no error message quotes it.
//   - A [Config] is not changed after Load and Validate. It may then be read from any goroutine.
//
//go:generate go test -run ^TestSchema$ -update .
package configs
