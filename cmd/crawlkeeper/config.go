package main

import (
	"cmp"

	"crawlkeeper/configs"
)

// configFlags change the configuration. There are none for URLs, so that no secret stands in a command line.
type configFlags struct {
	Config     string `short:"c" help:"Configuration file (default: what CRAWLKEEPER_CONFIG names, else none)." placeholder:"FILE"`
	Name       string `help:"Name of the manager (manager.name)." placeholder:"NAME"`
	Prefix     string `help:"Prefix of all names in Redis (redis.prefix)." placeholder:"PREFIX"`
	Collector  string `help:"Manage the sources of this collector (manager.collector)." placeholder:"NAME"`
	HTTPListen string `name:"http-listen" help:"Address for health and metrics (http.listen)." placeholder:"HOST:PORT"`
	LogLevel   string `enum:",debug,info,warn,error" default:"" help:"debug, info, warn or error (log.level)." placeholder:"LEVEL"`
	LogFormat  string `enum:",auto,text,json" default:"" help:"auto, text or json (log.format)." placeholder:"FORMAT"`
}

// loadConfig reads the configuration anew.
func (a *app) loadConfig() (*configs.Config, error) {
	c, err := configs.Load(cmp.Or(a.flags.Config, a.getenv("CRAWLKEEPER_CONFIG")), a.Environ)
	if err != nil {
		return nil, err
	}
	a.flags.apply(c)
	if err := c.Validate(); err != nil {
		return nil, err
	}
	return c, nil
}

// apply overrides what was given.
func (f configFlags) apply(c *configs.Config) {
	for _, o := range []struct {
		target *string
		flag   string
	}{
		{&c.Manager.Name, f.Name},
		{&c.Redis.Prefix, f.Prefix},
		{&c.Manager.Collector, f.Collector},
		{&c.HTTP.Listen, f.HTTPListen},
		{&c.Log.Level, f.LogLevel},
		{&c.Log.Format, f.LogFormat},
	} {
		if o.flag != "" {
			*o.target = o.flag
		}
	}
}
