package admin

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"sync"
	"time"
)

// audit has each call that may change something in the log once it is answered: what was asked, what became of it and
// who asked. Of calls that are refused for want of a token it has one a second, with the number of those left out.
type audit struct {
	log *slog.Logger
	now func() time.Time

	mu      sync.Mutex // guards refused and more
	refused time.Time  // when the last refused call was logged
	more    int        // refused calls since
}

const longestAgent = 200 // bytes of a user agent

// noted are what a handler adds to the line of its call.
type noted struct{ attrs []any }

type notedKey struct{}

// noteCall adds attributes to the line of a call that changes something.
func noteCall(r *http.Request, attrs ...any) {
	if n, ok := r.Context().Value(notedKey{}).(*noted); ok {
		n.attrs = append(n.attrs, attrs...)
	}
}

// statusWriter notes the status of an answer.
type statusWriter struct {
	http.ResponseWriter
	status int
}

// WriteHeader implements http.ResponseWriter.
func (w *statusWriter) WriteHeader(status int) {
	w.status = cmp.Or(w.status, status)
	w.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (w *statusWriter) Write(b []byte) (int, error) {
	w.status = cmp.Or(w.status, http.StatusOK)
	return w.ResponseWriter.Write(b)
}

// Unwrap is for http.ResponseController.
func (w *statusWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// call serves a call that may change something, and logs it. by is the token that it came with, in a word.
func (l *audit) call(
	w http.ResponseWriter, r *http.Request, by string, serve func(http.ResponseWriter, *http.Request),
) {
	n, answer := &noted{}, &statusWriter{ResponseWriter: w}
	defer func() { l.tell(r, by, answer.status, n.attrs) }()
	serve(answer, r.WithContext(context.WithValue(r.Context(), notedKey{}, n)))
}

func (l *audit) tell(r *http.Request, by string, status int, attrs []any) {
	line := []any{
		"method", r.Method, "path", r.URL.EscapedPath(), "status", status, "client", r.RemoteAddr, "token", by,
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		line = append(line, "certificate", r.TLS.VerifiedChains[0][0].Subject.String())
	}
	if agent := r.UserAgent(); agent != "" {
		line = append(line, "agent", agent[:min(len(agent), longestAgent)])
	}
	if line = append(line, attrs...); status < http.StatusBadRequest {
		l.log.Info("admin call", line...)
		return
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		l.mu.Lock()
		defer l.mu.Unlock()
		now := l.now()
		if now.Sub(l.refused) < time.Second {
			l.more++
			return
		}
		if l.refused = now; l.more > 0 {
			line = append(line, "left_out", l.more)
		}
		l.more = 0
	}
	l.log.Warn("admin call", line...)
}
