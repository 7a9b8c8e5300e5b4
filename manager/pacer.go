package manager

import (
	"golang.org/x/time/rate"
	"reflect"

	"crawlkeeper/configs"
)

// newPacer lets so many starts a second pass, one after the other; 0 is no limit.
func newPacer(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(perSecond), 1)
}

// keepFixed puts back what a reload cannot change, and names it. A manager whose keys in Redis changed under it would push
// into one list while its crawlers read another.
func keepFixed(old, fresh *configs.Config) []string {
	var names []string
	note := func(name string, same bool) {
		if !same {
			names = append(names, name)
		}
	}
	note("redis", reflect.DeepEqual(old.Redis, fresh.Redis))
	note("postgres", old.Postgres == fresh.Postgres)
	note("http", old.HTTP == fresh.HTTP)
	note("log", old.Log == fresh.Log)
	note("runs", reflect.DeepEqual(old.Runs, fresh.Runs))
	kept := old.Manager
	kept.Disabled = fresh.Manager.Disabled
	note("manager (but for manager.disabled)", kept == fresh.Manager)
	fresh.Redis, fresh.Postgres, fresh.HTTP, fresh.Log, fresh.Runs, fresh.Manager = old.Redis, old.Postgres, old.HTTP, old.Log, old.Runs, kept
	return names
}
