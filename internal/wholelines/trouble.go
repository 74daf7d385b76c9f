package wholelines

import (
	"sync/atomic"
	"time"
)

// tellEvery is the least time between two log lines about a file that cannot be written.
const tellEvery = time.Minute

// Trouble is why a file cannot be written, from a failure until something is written again. One goroutine writes; any
// may ask.
type Trouble struct {
	why  atomic.Pointer[error]
	told time.Time
}

// Failed notes why. It reports whether the log is to be told.
func (t *Trouble) Failed(err error) bool {
	t.why.Store(&err)
	now := time.Now()
	if now.Sub(t.told) < tellEvery {
		return false
	}
	t.told = now
	return true
}

// Wrote notes that the file was written.
func (t *Trouble) Wrote() { t.why.Store(nil) }

// Err is the latest failure; nil while the file can be written.
func (t *Trouble) Err() error {
	if err := t.why.Load(); err != nil {
		return *err
	}
	return nil
}
