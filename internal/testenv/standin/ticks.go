package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// tickOptions say what it does with ticks.
type tickOptions struct {
	take    bool
	runs    bool
	runFor  time.Duration
	outcome string
	process bool
}

func (o *tickOptions) register() {
	flag.BoolVar(&o.take, "ticks", false, "take ticks from CRAWLKEEPER_START_URLS_KEY")
	flag.BoolVar(&o.runs, "runs", false, "keep a row of crawl_runs for each, by CRAWLKEEPER_POSTGRES_URL")
	flag.DurationVar(&o.runFor, "run-for", 0, "`time` that a run takes")
	flag.StringVar(&o.outcome, "outcome", "succeeded", "`status` of a run at its end")
	flag.BoolVar(&o.process, "process-column", false, "write CRAWLKEEPER_PROCESS_ID into the column process of crawl_runs")
}

const retryPause = 50 * time.Millisecond

// loop takes ticks for ever; when Redis or Postgres is away it says so and tries again.
func (o *tickOptions) loop(code string, sick *sickOptions) {
	for {
		if err := o.takeAll(code, sick); err != nil {
			fmt.Fprintln(os.Stderr, "standin:", err)
		}
		time.Sleep(retryPause)
	}
}

func (o *tickOptions) takeAll(code string, sick *sickOptions) error {
	c, err := dialRedis(os.Getenv("CRAWLKEEPER_REDIS_URL"))
	if err != nil {
		return fmt.Errorf("take ticks: %w", err)
	}
	defer c.close()
	for {
		sick.wait()
		reply, err := c.do("BLPOP", os.Getenv("CRAWLKEEPER_START_URLS_KEY"), sick.patience())
		if err != nil {
			return fmt.Errorf("take ticks: %w", err)
		}
		if len(reply) != 2 {
			continue
		}
		if err := reportTick(code, reply[1]); err != nil {
			return err
		}
		if err := o.crawl(code, reply[1], sick); err != nil {
			return err
		}
	}
}

func reportTick(code, tick string) error {
	list := os.Getenv("STANDIN_LIST")
	if list == "" {
		return nil
	}
	c, err := dialReports()
	if err != nil {
		return fmt.Errorf("report tick: %w", err)
	}
	defer c.close()
	if _, err := c.do("RPUSH", list+":ticks", code+" "+nanoseconds()+" "+tick); err != nil {
		return fmt.Errorf("report tick: %w", err)
	}
	return nil
}

// crawl is one run: a row that is opened, and closed after a while.
func (o *tickOptions) crawl(code, tick string, sick *sickOptions) error {
	if !o.runs {
		time.Sleep(o.runFor)
		return nil
	}
	var fields struct {
		Trigger string `json:"trigger"`
	}
	if err := json.Unmarshal([]byte(tick), &fields); err != nil {
		return fmt.Errorf("read tick: %w", err)
	}
	db, err := dialPostgres(os.Getenv("CRAWLKEEPER_POSTGRES_URL"))
	if err != nil {
		return fmt.Errorf("open run: %w", err)
	}
	defer db.close()
	column, value := "", ""
	if o.process {
		column, value = ", process", ", "+quote(os.Getenv("CRAWLKEEPER_PROCESS_ID"))
	}
	id, err := db.query("INSERT INTO crawl_runs (source_code, status, trigger, started_at" + column + ") VALUES (" +
		quote(code) + ", 'running', " + quote(fields.Trigger) + ", clock_timestamp()" + value + ") RETURNING id")
	if err != nil {
		return fmt.Errorf("open run: %w", err)
	}
	time.Sleep(o.runFor)
	sick.wait()
	_, err = db.query("UPDATE crawl_runs SET status = " + quote(o.outcome) +
		", finished_at = clock_timestamp() WHERE status = 'running' AND id = " + quote(id))
	if err != nil {
		return fmt.Errorf("close run: %w", err)
	}
	return nil
}
