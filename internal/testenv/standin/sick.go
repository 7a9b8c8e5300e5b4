package main

import (
	"flag"
	"fmt"
	"os"
	"time"
)

// sickOptions make it stuck and well again while it runs.
type sickOptions struct {
	file string
	beat time.Duration
}

func (s *sickOptions) register() {
	flag.StringVar(&s.file, "sick", "", "while this `file` exists: take no ticks, end no run, print nothing more, beat no heart")
	flag.DurationVar(&s.beat, "beat", 0, "write the heartbeat each `time`, by CRAWLKEEPER_REDIS_URL, with ten times as much to live")
}

// wait returns once it is not sick.
func (s *sickOptions) wait() {
	for s.file != "" {
		if _, err := os.Stat(s.file); err != nil {
			return
		}
		time.Sleep(retryPause)
	}
}

// patience is how long it waits for a tick, in seconds; 0 is for ever. One that may fall sick must not hold out its hand then.
func (s *sickOptions) patience() string {
	if s.file != "" {
		return "0.05"
	}
	return "0"
}

// goOn beats the heart for ever.
func (s *sickOptions) goOn(code string) {
	for i := 1; ; i++ {
		s.wait()
		if err := s.once(code, i); err != nil {
			fmt.Fprintln(os.Stderr, "standin:", err)
		}
		time.Sleep(s.beat)
	}
}

func (s *sickOptions) once(code string, pages int) error {
	c, err := dialRedis(os.Getenv("CRAWLKEEPER_REDIS_URL"))
	if err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	defer c.close()
	key := "crawler:" + code + ":heartbeat"
	if _, err := c.do("HSET", key, "pages", fmt.Sprint(pages)); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	if _, err := c.do("PEXPIRE", key, fmt.Sprint((10 * s.beat).Milliseconds())); err != nil {
		return fmt.Errorf("beat: %w", err)
	}
	return nil
}
