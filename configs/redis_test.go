package configs

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestKeyNames(t *testing.T) {
	t.Parallel()
	r := mustParse(t, "redis: {prefix: 'p{1}:', keys: {clean: ['{prefix}{code}:requests', 'x:{code}:{code}']}}").Redis
	got := []string{
		r.StartURLs("a:b"), r.Heartbeat("a:b"), r.Status(), r.Control(), r.Replies(), r.Events(), r.ManagerKey(), r.LastDue(),
	}
	got = append(got, r.Clean("a:b")...)
	want := []string{
		"p{1}:a:b:start_urls", "p{1}:a:b:heartbeat", "p{1}:status", "p{1}:control", "p{1}:replies", "p{1}:events", "p{1}:manager", "p{1}:last_due",
		"p{1}:a:b:requests", "x:a:b:a:b",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// As with a hash tag of a cluster, around a code or a prefix that reads like the other placeholder.
func TestWhatWasPutIntoANameIsNotReplaced(t *testing.T) {
	t.Parallel()
	r := mustParse(t, "redis: {prefix: code, keys: {start_urls: '{{prefix}}{{code}}', heartbeat: '{prefix}{prefix}x{code}{'}}").Redis
	for got, want := range map[string]string{
		r.StartURLs("prefix"): "{code}{prefix}",
		r.Heartbeat("a"):      "codecodexa{",
		r.name("", "a"):       "",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSentinel(t *testing.T) {
	t.Parallel()
	for url, want := range map[Secret]Sentinel{
		"redis+sentinel://h?master=m": {Addrs: []string{"h:26379"}, Master: "m"},
		"rediss+sentinel://u:p%40%2F@a:1,b,[::1]:3,[::1]/2?master=m%20x&sentinel_username=su&sentinel_password=sp": {
			Addrs: []string{"a:1", "b:26379", "[::1]:3", "[::1]:26379"}, Master: "m x", Username: "u", Password: "p@/", DB: 2,
			SentinelUsername: "su", SentinelPassword: "sp", TLS: true,
		},
	} {
		got, is, err := Redis{URL: url}.Sentinel()
		if err != nil || !is {
			t.Errorf("%s: %v, %v", url.Reveal(), is, err)
		}
		if diff := cmp.Diff(want, got, cmp.Transformer("reveal", Secret.Reveal)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", url.Reveal(), diff)
		}
	}
	for url, want := range map[Secret]string{
		"redis+sentinel://?master=m":          "needs the sentinels as host:port, parted by commas",
		"redis+sentinel://a,,b?master=m":      "needs the sentinels as host:port, parted by commas",
		"redis+sentinel://a:x?master=m":       "needs the sentinels as host:port, parted by commas",
		"redis+sentinel://a/-1?master=m":      "must end in the number of the database, as in /0",
		"redis+sentinel://a/0?master=m&db=1":  `has the unknown parameter "db"; there are master, sentinel_username and sentinel_password`,
		"redis+sentinel://u:%zz@a/0?master=m": "has a user or password with a broken percent-encoding",
	} {
		if _, is, err := (Redis{URL: url}).Sentinel(); !is || err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", url.Reveal(), err, want)
		}
	}
	if _, is, err := (Redis{URL: "redis://h/0"}).Sentinel(); is || err != nil {
		t.Errorf("a plain URL: %v, %v", is, err)
	}
}
