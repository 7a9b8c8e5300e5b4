package configs

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
)

// Whatever a file holds: no panic, an error that says where, or a configuration that obeys every rule.
func FuzzLoad(f *testing.F) {
	f.Add(readText(f, "crawlkeeper.yaml"))
	for _, text := range []string{
		"", "a: *a", "redis: &a {keys: *a}", "adapters: {a: &x {command: [x]}, b: *x}", "defaults: {output: [file], env: {a: }}",
		"log: {level: info, level: info}", "? [a]\n: b", "redis: {url: redis+sentinel://u:p@a,b/0?master=m}", "a: 1\n---\nb: 2", "- - -", "\xff\xfe",
		"manager: {<<: {name: x}}", "adapters: {'*': {command: [x], output: {to: file, max_size: 99GiB}}}", "http: {listen: '[::1]:0'}",
		"redis: {keys: {status: '{code}', clean: ['']}}", "manager: {status_ttl: 9999999h}",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "url_file") {
			return // would read files of this machine
		}
		c, err := parse("f", []byte(text), nil)
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("a loaded configuration breaks a rule: %v", err)
			}
			return
		}
		found, ok := errors.AsType[*Error](err)
		if !ok {
			t.Fatalf("error %T: %v", err, err)
		}
		for _, p := range found.Problems {
			if p.Line < 1 || p.Column < 1 || p.Message == "" || strings.ContainsAny(p.Message+p.Key, "\n\x00") {
				t.Errorf("problem %+v", p)
			}
		}
	})
}

// Values of one line. What is read can be written, and is then read as the same.
func FuzzScalars(f *testing.F) {
	for _, text := range []string{
		"10MiB", "9223372036854775807B", "-1GiB", " 5 KB", "8EiB", "1024:4096", "unlimited", "5:unlimited", "9:3", "0-2,5", "1023", "7-3,", "0-1023,0-1023",
		"022", "0o22", "1777", "90m", "-1h", "3d", "106751d", "1e3s", "", "\x00", "١",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if n, err := parseSize(text); err == nil {
			if back, err := parseSize(n.String()); err != nil || back != n {
				t.Errorf("the size %q is %d, then %s: %d, %v", text, n, n, back, err)
			}
		}
		if l, err := ParseRlimit(text); err == nil {
			back, err := ParseRlimit(fmt.Sprintf("%d:%d", l.Soft, l.Hard))
			if l.Soft > l.Hard || err != nil || back != l {
				t.Errorf("the limit %q is %v, then %v, %v", text, l, back, err)
			}
		}
		if list, err := (Limits{CPUs: text}).CPUList(); err == nil && text != "" {
			ascending := slices.IsSortedFunc(list, func(a, b int) int { return a - b - 1 }) // and none twice
			if len(list) == 0 || !ascending || list[0] < 0 || list[len(list)-1] > maxCPU {
				t.Errorf("the processors %q are %v", text, list)
			}
			written := strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ",")
			if back, err := (Limits{CPUs: written}).CPUList(); err != nil || !slices.Equal(back, list) {
				t.Errorf("the processors %q are %v, then %v, %v", text, list, back, err)
			}
		}
		if bits, err := (Adapter{Umask: text}).UmaskBits(); err == nil && (bits == nil) != (text == "") || bits != nil && (*bits < 0 || *bits > 0o777) {
			t.Errorf("the umask %q is %v", text, bits)
		}
		if d, err := parseDuration(text); err == nil {
			if back, err := parseDuration(d.String()); err != nil || back != d {
				t.Errorf("the duration %q is %v, then %v, %v", text, d, back, err)
			}
		} else if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q: %v", text, err)
		}
	})
}

// An address with a password in it, of which no word may come through.
func FuzzURLs(f *testing.F) {
	f.Add("redis+sentinel://user:", "@h1:26379,h2/3?master=m&sentinel_password=x")
	f.Add("redis://:", "@127.0.0.1:6379/0")
	f.Add("unix://:", "@/run/redis.sock?db=0")
	f.Add("postgres://a:", "@[::1]:5432/db?sslmode=require")
	f.Add("rediss+sentinel://", "@%zz,/x?y=1;z")
	f.Add("", "\x7f")
	const password = "sesame-opens"
	f.Fuzz(func(t *testing.T, before, after string) {
		address := Secret(before + password + after)
		redis := Redis{URL: address}
		s, sentinel, err := redis.Sentinel()
		if sentinel && err == nil {
			if len(s.Addrs) == 0 || s.Master == "" || s.DB < 0 {
				t.Errorf("%q is %+v", before+after, s)
			}
			for _, addr := range s.Addrs {
				if host, port, err := net.SplitHostPort(addr); err != nil || host == "" || !validPort(port) {
					t.Errorf("%q has the sentinel %q", before+after, addr)
				}
			}
		}
		for _, err := range []error{err, redis.check(), Postgres{URL: address}.check()} {
			_, tail, _ := strings.Cut(before, "://")
			if err != nil && strings.Contains(err.Error(), password) && strings.Contains(before, "://") && !strings.ContainsAny(tail+after, "?&") {
				t.Errorf("an error tells the password: %v", err)
			}
		}
	})
}

// A variable sets its key as the file does, or is a problem in one line that tells no secret.
func FuzzEnviron(f *testing.F) {
	for _, entry := range []string{
		"CRAWLKEEPER_REDIS_URL=redis://h/0", "CRAWLKEEPER_MANAGER_STATUS_TTL=1s", "CRAWLKEEPER_HTTP_PPROF=maybe", "CRAWLKEEPER_RUNS_FAILED=a",
		"CRAWLKEEPER_LOG_LEVEL", "CRAWLKEEPER_REDIS_PORT=tcp://1.2.3.4:5", "CRAWLKEEPER_KEEP_RUNS=\x00", "=", "CRAWLKEEPER_POSTGRES_URL=sesame",
	} {
		f.Add(entry)
	}
	f.Fuzz(func(t *testing.T, entry string) {
		if strings.Contains(entry, "URL_FILE") {
			return // would read files of this machine
		}
		name, value, _ := strings.Cut(entry, "=")
		c, err := parse("f", nil, []string{entry})
		if err == nil {
			if err := c.Validate(); err != nil {
				t.Fatalf("%q breaks a rule: %v", entry, err)
			}
			return
		}
		found, ok := errors.AsType[*Error](err)
		if !ok || !strings.HasPrefix(name, variablePrefix) {
			t.Fatalf("%q: %T %v", entry, err, err)
		}
		for _, p := range found.Problems {
			secret := secretVariable(name) && len(value) > 8 && strings.Contains(p.Message, value)
			if p.Message == "" || strings.ContainsAny(p.Message, "\n\x00") || secret {
				t.Errorf("%q: %+v", entry, p)
			}
		}
	})
}
