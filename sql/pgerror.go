package sql

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// SQLSTATE codes that are acted on.
const (
	codeNotNull     = "23502"
	codeLockTimeout = "55P03"
	codeReadOnly    = "25006"
	codeCanceled    = "57014"
	codeNoRight     = "42501"
	codeNoTable     = "42P01"
	codeNoColumn    = "42703"
)

// verdict is what an error means for those who wrote.
type verdict int

const (
	fine    verdict = iota
	away            // the server cannot be used now: the same again later
	locked          // somebody was in the way: a lock, a deadlock, a limit of time
	misfit          // the tables or our rights do not fit: every row of the kind fails alike
	refused         // a row cannot be written as it is
)

// awayClasses are classes of SQLSTATE that speak of the server and the session, not of what was sent: connection,
// authorization, catalog name, resources, operator intervention, system error.
const awayClasses = "08 28 3D 53 57 58"

// judge sorts an error. What is no answer of the server is a connection that was lost, or never made.
func judge(err error) verdict {
	if err == nil {
		return fine
	}
	pgErr, ok := refusal(err)
	if !ok {
		return away
	}
	switch class := pgErr.Code[:min(2, len(pgErr.Code))]; {
	case pgErr.Code == codeLockTimeout || pgErr.Code == codeCanceled || class == "40":
		return locked
	case pgErr.Code == codeReadOnly || strings.Contains(awayClasses, class):
		return away
	case class == "42":
		return misfit
	}
	return refused
}

// refusal is the server's own answer in an error; false where there is none.
func refusal(err error) (*pgconn.PgError, bool) {
	return errors.AsType[*pgconn.PgError](err)
}
