package configs

import "time"

// Default returns the built-in configuration: what a manager does that was given no file and no variable. It behaves as the managers
// that crawlkeeper replaces did. Every call returns a value of its own.
func Default() *Config {
	c := &Config{
		Redis: Redis{
			URL:    "redis://127.0.0.1:6379/0",
			Prefix: "crawler:",
			Keys: Keys{
				StartURLs: "{prefix}{code}:start_urls",
				Clean:     []string{"{prefix}{code}:requests"},
				Status:    "{prefix}status",
				Control:   "{prefix}control",
				Replies:   "{prefix}replies",
				Events:    "{prefix}events",
				Manager:   "{prefix}manager",
				LastDue:   "{prefix}last_due",
				Heartbeat: "{prefix}{code}:heartbeat",
			},
		},
		Postgres: Postgres{URL: "postgres://crawler@127.0.0.1/crawler"},
		Manager: Manager{
			Collector:      "news",
			Disabled:       DisabledKeep,
			StatusInterval: 2 * time.Second,
			StatusTTL:      10 * time.Second,
		},
		HTTP: HTTP{Listen: "127.0.0.1:9870", SourceLabels: true},
		Log:  Log{Level: "info", Format: "auto"},
		Runs: Runs{
			Succeeded:       []string{"succeeded", "success"},
			Failed:          []string{"failed", "error"},
			InterruptedText: "crawler ended before this run was finished",
		},
		Janitor:  Janitor{Schedule: "0 3 * * *", MinAge: time.Hour},
		Keep:     Keep{Processes: 30 * 24 * time.Hour},
		Hooks:    Hooks{},
		Alerts:   []Alert{},
		Defaults: defaultAdapter(),
		where:    map[string]place{},
	}
	c.Adapters = builtinAdapters(c.Defaults)
	return c
}

func defaultAdapter() Adapter {
	return Adapter{
		Tick:        TickPlain,
		Misfire:     MisfireOnce,
		Dir:         ".",
		Env:         Env{},
		EnvInherit:  []string{"*"},
		StopTimeout: 15 * time.Second,
		StopSignal:  "SIGTERM",
		After:       []string{},
		Rlimits:     map[string]string{},
		Track:       Track{Roots: []string{}},
		Backoff:     Backoff{Min: 5 * time.Second, Max: 300 * time.Second, Stable: 60 * time.Second, Jitter: 0.1},
		PauseFor:    PauseFor{Min: 5 * time.Minute, Max: 6 * time.Hour},
		Restart:     Restart{Policy: RestartAlways},
		Output:      Output{To: Targets{OutputForward}, MaxSize: 10 << 20, MaxAge: 7 * 24 * time.Hour, Keep: 5, Compress: true},
		Health:      []Check{},
		Hooks:       Hooks{},
	}
}

// builtinAdapters are those of a configuration that lists none.
func builtinAdapters(shared Adapter) map[string]Adapter {
	all, rss := shared, shared
	all.Command = []string{"scrapy", "crawl", "{code}"}
	rss.Command = []string{"scrapy", "crawl", "custom_rss", "-a", "source_code={code}"}
	return map[string]Adapter{"*": all, "rss": rss}
}
