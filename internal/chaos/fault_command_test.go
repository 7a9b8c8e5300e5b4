package chaos

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

func commandFaults() subject {
	const s = time.Second
	return subject{"command", 3 * s, []fault{
		{"command/restart", 4, 0, 0, func(r *round, st step) { r.ask("restart", r.some(st, 3)) }},
		{"command/restart all", 1, 0, 0, func(r *round, _ step) { r.ask("restart", "all") }},
		{"command/flood of restarts", 1, 0, 0, func(r *round, st step) {
			codes := r.some(st, 1)
			for range 50 {
				r.publish(fmt.Sprintf(`{"action":"restart","source":%q,"by":"flood"}`, codes[0]))
			}
			r.ask("restart", codes)
		}},
		{"command/stop, start", 2, s, 5 * s, stopAndStart},
		{"command/pause, resume", 1, s, 5 * s, func(r *round, st step) {
			codes := r.some(st, 3)
			r.ask("pause", codes)
			r.wait(st.hold)
			r.ask("resume", codes)
		}},
		{"command/tick", 2, 0, 0, func(r *round, st step) { r.ask("tick", r.some(st, 3)) }},
		{"command/reload", 1, 0, 0, func(r *round, _ step) { r.ask("reload", nil) }},
		{"command/garbage", 2, 0, 0, func(r *round, st step) {
			for i := range 100 {
				r.publish(garbage(i, st.pick))
			}
		}},
	}}
}

// garbage is what changes nothing.
func garbage(i int, pick uint64) string {
	switch i % 7 {
	case 0:
		return `{"action":"restart","by":"garbage"}`
	case 1:
		return `{"action":"explode","source":"all","by":"garbage"}`
	case 2:
		return `{"action":"restart","source":"nobody-` + fmt.Sprint(pick) + `","by":"garbage"}`
	case 3:
		return strings.Repeat("x", 70<<10)
	case 4:
		return "\xff\xfe\x00"
	case 5:
		return `[{"action":"restart","source":"all","by":"garbage"}]`
	}
	return `{"action":["restart"],"source":{"all":1},"by":"garbage"}`
}

func stopAndStart(r *round, st step) {
	codes := r.some(st, 3)
	r.unsettle(codes)
	if reply := r.ask("stop", codes); reply != nil && reply["ok"] == true && reply["warning"] == nil {
		r.want(codes, false)
		r.wait(st.hold)
	}
	r.unsettle(codes)
	if reply := r.ask("start", codes); reply != nil && reply["ok"] == true && reply["warning"] == nil {
		r.want(codes, true)
	}
}

func (r *round) publish(text string) (receivers int64) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	return r.rdb.Publish(ctx, "crawler:control", text).Val()
}

// replyWithin is when the command line gives up.
const replyWithin = 30 * time.Second

// ask sends a command and waits for its answer; nil where none may have been heard.
func (r *round) ask(action string, sources any) map[string]any {
	id := fmt.Sprintf("chaos-%d", r.commands.Add(1))
	text, _ := json.Marshal(map[string]any{"action": action, "source": sources, "id": id, "by": id})
	answer := make(chan map[string]any, 1)
	r.mu.Lock()
	r.replies[id] = answer
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.replies, id)
	}()
	codes, some := sources.([]string)
	if !some {
		codes = r.codes()
	}
	r.touch(codes)
	defer r.touch(codes)
	calm, began, sent := !r.disturbed(r.now()), r.now(), time.Now()
	r.note("command", id, string(text))
	if r.publish(string(text)) == 0 {
		r.count("commands that nobody heard")
		return nil
	}
	if r.old != nil {
		return nil // it does not answer
	}
	for r.now()-began < replyWithin {
		select {
		case reply := <-answer:
			if calm {
				r.measure("7 a command is answered", 5*time.Second, r.now()-began, id)
			}
			r.count("commands that were answered")
			r.note("reply", id, fmt.Sprint(reply))
			r.judge(action, id, reply, sent)
			return reply
		case <-time.After(time.Second):
			if r.disturbed(began) && r.now()-began > 3*time.Second {
				r.count("commands whose answer was not awaited, as something broke")
				return nil
			}
		}
	}
	if r.starvedBetween(began, r.now()) {
		r.count("times that were not judged, as the machine was too busy")
		return nil
	}
	r.violated("7 a command is answered", id, string(text))
	return nil
}

// judge looks at the results of a reply: what was refused says why, and a restart that is done has started somebody.
func (r *round) judge(action, id string, reply map[string]any, sent time.Time) {
	results, _ := reply["results"].(map[string]any)
	for code, result := range results {
		fields, _ := result.(map[string]any)
		ok, _ := fields["ok"].(bool)
		if why, _ := fields["error"].(string); !ok && why == "" {
			r.violated("7 what is refused says why", id, fmt.Sprint(result))
		}
		if ok && action == "restart" {
			r.mu.Lock()
			r.asked = append(r.asked, asked{id, code, sent, time.Now()})
			r.mu.Unlock()
		}
	}
}

// disturbed tells whether Redis or a manager is, or was since shortly before a moment, not well.
func (r *round) disturbed(moment time.Duration) bool {
	moment -= slack * time.Second
	if r.starvedBetween(moment, r.now()) || !r.fair(needRedis) || time.Duration(r.rserver.since.Load()) > moment {
		return true
	}
	for _, u := range r.units {
		if _, _, _, since := u.state(); r.now()-since > moment {
			return true
		}
	}
	return false
}

// hearReplies hands replies to those who wait for them.
func (r *round) hearReplies(ctx context.Context) {
	sub := r.rdb.Subscribe(ctx, "crawler:replies")
	defer sub.Close()
	for {
		select {
		case m, ok := <-sub.Channel():
			if !ok {
				return
			}
			var reply map[string]any
			if json.Unmarshal([]byte(m.Payload), &reply) != nil {
				continue
			}
			id, _ := reply["id"].(string)
			r.mu.Lock()
			if c := r.replies[id]; c != nil {
				select {
				case c <- reply:
				default:
				}
			}
			r.mu.Unlock()
		case <-ctx.Done():
			return
		}
	}
}

// bringBack takes back what commands may have left, and says what is to be true from now on.
func (r *round) bringBack() bool {
	r.forgetAhead()
	began := r.now()
	for {
		start, resume := r.ask("start", "all"), r.ask("resume", "all")
		if good(start) && good(resume) {
			break
		}
		if r.now()-began > calmWithin {
			r.violated("7 a command is answered", "after the storm", fmt.Sprint(start, resume))
			return false
		}
		sleep(r.t.Context(), 500*time.Millisecond) // what refused is asked again
	}
	r.want(r.codes(), true)
	return true
}

func good(reply map[string]any) bool {
	return reply != nil && reply["ok"] == true && reply["warning"] == nil
}
