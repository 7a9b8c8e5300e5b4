package configs

import "time"

// Config is one whole configuration. The comment above a field is also its description in the JSON schema.
type Config struct {
	// Where Redis is and what its keys are called.
	Redis Redis `yaml:"redis"`
	// Where Postgres is.
	Postgres Postgres `yaml:"postgres"`
	// The daemon itself.
	Manager Manager `yaml:"manager"`
	// The HTTP server for health, metrics and output.
	HTTP HTTP `yaml:"http"`
	// The manager's own log, on standard error.
	Log Log `yaml:"log"`
	// The words that stand in crawl_runs.
	Runs Runs `yaml:"runs"`
	// How long rows stay in Postgres. Older ones are removed, but never those of what still runs.
	Keep Keep `yaml:"keep"`
	// What looks, now and then, for what crawlers and managers left behind.
	Janitor Janitor `yaml:"janitor"`
	// What runs at the points of every crawler's life, before the adapter's own, by the name of the point.
	Hooks Hooks `yaml:"hooks"`
	// Conditions of which somebody is told.
	Alerts []Alert `yaml:"alerts"`
	// What all adapters share; a key of an adapter wins.
	Defaults Adapter `yaml:"defaults"`
	// How each kind of source is crawled, by the adapter's name in sources.adapter. "*" serves every name that is not listed.
	Adapters map[string]Adapter `yaml:"adapters"`

	// where says for each key that was set from where it came, so that later errors can point at it. Written by Load only.
	where map[string]place
}

// Redis says where Redis is. Its methods name the keys and channels.
type Redis struct {
	// redis://, rediss:// (TLS), unix:///path?db=0 or redis+sentinel://host1:26379,host2:26379/0?master=NAME (rediss+sentinel with TLS), with user:password@ in front of the host if need be.
	URL Secret `yaml:"url"`
	// A file whose only content is the URL; instead of url. Relative to the working directory.
	URLFile string `yaml:"url_file"`
	// What {prefix} stands for in the names of keys and channels. One manager is active for a prefix.
	Prefix string `yaml:"prefix"`
	// The names of keys and channels. {prefix} and {code} are replaced.
	Keys Keys `yaml:"keys"`
}

// Keys are templates for the names of Redis keys and channels.
type Keys struct {
	// List of ticks of one source; needs {code}.
	StartURLs string `yaml:"start_urls"`
	// Keys that are deleted, with the ticks, before each start of a crawler; each needs {code}.
	Clean []string `yaml:"clean"`
	// Hash with the status of all sources.
	Status string `yaml:"status"`
	// Channel on which commands arrive.
	Control string `yaml:"control"`
	// Channel for the replies to commands that have an id.
	Replies string `yaml:"replies"`
	// Channel with one message for each change of phase.
	Events string `yaml:"events"`
	// String that names the active manager.
	Manager string `yaml:"manager"`
	// Hash with the last due time that was pushed for each source.
	LastDue string `yaml:"last_due"`
	// Hash that a crawler may write to show its progress; needs {code}.
	Heartbeat string `yaml:"heartbeat"`
}

// Postgres says where Postgres is.
type Postgres struct {
	// postgres://user:password@host:5432/database, with parameters such as ?sslmode=require.
	URL Secret `yaml:"url"`
	// A file whose only content is the URL; instead of url. Relative to the working directory.
	URLFile string `yaml:"url_file"`
}

// Manager holds the settings of the daemon.
type Manager struct {
	// Name of this manager in Redis, Postgres and the log. Empty: the host's name.
	Name string `yaml:"name"`
	// Only sources whose column collector has this value are managed.
	Collector string `yaml:"collector"`
	// What becomes of the crawler of a disabled source: it is kept without ticks, or stopped.
	Disabled string `yaml:"disabled" enum:"keep,stop"`
	// Crawlers started in a second at most; 0 is no limit.
	StartRate float64 `yaml:"start_rate"`
	// How often the status hash and the manager's key are kept alive.
	StatusInterval time.Duration `yaml:"status_interval"`
	// When the status hash and the manager's key expire after the last write; longer than status_interval.
	StatusTTL time.Duration `yaml:"status_ttl"`
	// How long open runs may go on after SIGTERM, without new ticks, before crawlers are stopped.
	DrainTimeout time.Duration `yaml:"drain_timeout"`
}

// HTTP holds the settings of the HTTP server.
type HTTP struct {
	// Address as host:port; port 0 takes a free one. Empty: no HTTP server.
	Listen string `yaml:"listen"`
	// Serve /debug/pprof.
	Pprof bool `yaml:"pprof"`
	// Put the label source on metrics. Without it their number does not grow with the number of sources.
	SourceLabels bool `yaml:"source_labels"`
}

// Log holds the settings of the manager's own log.
type Log struct {
	// The least severe level that is written.
	Level string `yaml:"level" enum:"debug,info,warn,error"`
	// auto is text on a terminal and JSON lines otherwise.
	Format string `yaml:"format" enum:"auto,text,json"`
}

// Runs lists the words that crawlers write into crawl_runs.status.
type Runs struct {
	// Words that mean that a run went well.
	Succeeded []string `yaml:"succeeded"`
	// Words that mean that a run failed.
	Failed []string `yaml:"failed"`
	// How crawl_runs.error of an interrupted run begins.
	InterruptedText string `yaml:"interrupted_text"`
}

// Janitor says when what was left behind is looked for, and what becomes of it.
type Janitor struct {
	// Cron line of five or six fields, @daily and the like. Empty: only when it is asked for.
	Schedule string `yaml:"schedule"`
	// Time zone of the schedule, as in Europe/Berlin. Empty: UTC.
	Timezone string `yaml:"timezone"`
	// Remove what is found, where it is provably ours. False: it is only reported.
	Remove bool `yaml:"remove"`
	// What is younger is left alone and not counted.
	MinAge time.Duration `yaml:"min_age"`
}

// Keep says how old rows become before they are removed; 0 is for ever.
type Keep struct {
	// Rows of crawl_processes, from the end of the process on; 0 is for ever.
	Processes time.Duration `yaml:"processes"`
	// Rows of crawl_runs with those of crawl_run_facts, from the end of the run on; 0 is for ever.
	Runs time.Duration `yaml:"runs"`
	// Rows of crawl_logs; 0 is for ever.
	Logs time.Duration `yaml:"logs"`
}
