package session

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestUsers(t *testing.T) {
	// Each step is "claim", "said X", "begin", "end" or a duration to wait. The letters are the results of claims,
	// equal for one conversation.
	for _, row := range []struct{ name, steps, want string }{
		{"one conversation after the other", "claim begin end claim begin end claim", "aaa"},
		{"two at once", "claim begin claim begin end end claim claim", "abcd"},
		{"told apart by what they say", "said x said y claim claim", "ab"},
		{"one by what it says, and a short one", "said x claim claim", "ab"},
		{"a short one that grew", "claim begin end said x claim", "ab"},
		{"forgotten after an hour", "claim begin claim end 59m claim 1h claim begin end claim", "abcdd"},
		{"remembered while seen", "claim 59m claim 59m claim 1h claim", "aaab"},
		{"open for longer than an hour", "claim begin 2h claim", "ab"},
	} {
		t.Run(row.name, func(t *testing.T) {
			u, now, key := NewUsers(Config{}), time.Unix(1000, 0), KeyOf("", "m", "alice")
			names := map[string]byte{}
			got := ""
			steps := strings.Fields(row.steps)
			for i := 0; i < len(steps); i++ {
				switch steps[i] {
				case "claim":
					id, _ := u.Claim(now, key, fmt.Sprint("fresh", i))
					if _, ok := names[id]; !ok {
						names[id] = byte('a' + len(names))
					}
					got += string(names[id])
				case "said":
					i++
					u.Said(now, key, steps[i])
				case "begin":
					u.Begin(key)
				case "end":
					u.End(now, key)
				default:
					d, err := time.ParseDuration(steps[i])
					if err != nil {
						t.Fatal(err)
					}
					now = now.Add(d)
				}
			}
			if got != row.want {
				t.Errorf("got %s, want %s", got, row.want)
			}
		})
	}
}

// TestUsersAreNeverTwo: no conversation is given to a request while another one of it is running.
func TestUsersAreNeverTwo(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		u, now := NewUsers(Config{Max: 3}), time.Unix(1000, 0)
		open := map[Key][]string{}
		for i := range rapid.IntRange(1, 80).Draw(t, "steps") {
			key := KeyOf("", "", rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "user"))
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0, 1:
				id, _ := u.Claim(now, key, fmt.Sprint(i))
				for _, other := range open[key] {
					if other == id {
						t.Fatalf("%s is open twice", id)
					}
				}
				u.Begin(key)
				open[key] = append(open[key], id)
			case 2:
				if n := len(open[key]); n > 0 {
					open[key] = open[key][:n-1]
					u.End(now, key)
				}
			case 3:
				now = now.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "minutes")) * time.Minute)
			}
			if u.Len() > 3 {
				t.Fatalf("%d users remembered", u.Len())
			}
		}
	})
}
