package proc

import (
	"os"
	"testing"
	"time"
)

func TestParseStat(t *testing.T) {
	st, err := parseStat("42 (a) b (c)) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 1 0 100 1000 100")
	if err != nil || st.pid != 42 || st.parent != 7 || st.cpu != 2*time.Second {
		t.Errorf("got %+v, %v", st, err)
	}
	for _, bad := range []string{"", "42 x", "x (y) S 1", "42 (a) S 7 42 42 0 -1 4194560 100 0 0 0 x 50"} {
		if _, err := parseStat(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if u, err := Tree(os.Getpid()); err == nil && u.RSS <= 0 {
		t.Errorf("own process: %+v", u)
	}
}
