package manager

import (
	"golang.org/x/time/rate"

	"crawlkeeper/configs"
)

// newPacer lets so many starts a second pass, one after the other; 0 is no limit.
func newPacer(perSecond float64) *rate.Limiter {
	if perSecond <= 0 {
		return rate.NewLimiter(rate.Inf, 1)
	}
	return rate.NewLimiter(rate.Limit(perSecond), 1)
}

// changedFixed names the sections that a reload cannot change.
func changedFixed(a, b *configs.Config) []string {
	var out []string
	if a.Redis.URL != b.Redis.URL || a.Redis.Prefix != b.Redis.Prefix || a.Redis.Status() != b.Redis.Status() || a.Redis.Control() != b.Redis.Control() {
		out = append(out, "redis")
	}
	if a.Postgres != b.Postgres {
		out = append(out, "postgres")
	}
	if a.HTTP != b.HTTP {
		out = append(out, "http")
	}
	if a.Log != b.Log {
		out = append(out, "log")
	}
	if a.Manager.Name != b.Manager.Name {
		out = append(out, "manager.name")
	}
	if a.Manager.Collector != b.Manager.Collector {
		out = append(out, "manager.collector")
	}
	return out
}
