package testenv

import _ "embed"

// OldSchema creates the shared tables as the old system has them.
//
//go:embed oldschema.sql
var OldSchema string
