package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/warmpath/warmpath/engine"
	"github.com/warmpath/warmpath/fleet"
	"github.com/warmpath/warmpath/internal/httpclient"
)

// ask puts questions and appends the answers. An engine that refuses the connection meanwhile is reported down; other
// failures only leave answers out.
func (t *target) ask(ctx context.Context, asks []engine.Ask, got *[]engine.Answer) {
	for _, ask := range asks {
		if t.health != up || ctx.Err() != nil || time.Now().Before(t.silent[ask.Name]) {
			continue
		}
		if ask.Works {
			if t.noteSleep(t.read(*got, fleet.Part{})); t.mayDoze() {
				continue
			}
		}
		a, err := t.answer(ctx, ask)
		if err == nil {
			t.noteKey(ask.Name, a.Status)
		}
		switch {
		case errors.Is(err, errRefused):
			t.failed(ctx, err, false)
		case errors.Is(err, errLong) && !t.long:
			t.long = true
			t.log.Warn("engine answers with more than is read: the router does not know what it says there",
				"question", ask.Name, "error", err)
		case err != nil:
			t.log.Debug("no answer", "question", ask.Name, "error", err)
		case engine.Missing(a.Status), a.Status == http.StatusUnauthorized, a.Status == http.StatusForbidden:
			// Switched off or guarded; this changes with a restart or not at all.
			t.silent[ask.Name] = time.Now().Add(t.p.cfg.ModelsInterval)
			t.log.Debug("question is not answered", "question", ask.Name, "path", a.Path, "status", a.Status)
		default:
			*got = append(*got, a)
		}
	}
}

// mayDoze reports that the engine sleeps when idle, or that it can and has nothing of ours to do. It is then not asked
// what it takes for work, but for once after its last request, which shows what its slots keep: the router's own books
// say how busy it is.
func (t *target) mayDoze() bool {
	return t.dozes || t.sleep != fleet.SleepUnknown && t.p.busy != nil && t.idle
}

// works reports whether the engine has requests of ours.
func (t *target) works() bool {
	return t.p.busy != nil && slices.ContainsFunc(t.current(), func(e fleet.Endpoint) bool {
		return t.p.busy(e.Name, t.addr.url)
	})
}

// answer puts one question, under its older paths where the newer are missing, and remembers which path is there. When
// all are missing, the last answer says so.
func (t *target) answer(ctx context.Context, ask engine.Ask) (engine.Answer, error) {
	for i := t.paths[ask.Name]; ; i++ {
		path := ask.Path
		if i > 0 {
			path = ask.Older[i-1]
		}
		status, body, err := t.get(ctx, path)
		a := engine.Answer{Ask: ask.Name, Path: path, Status: status, Body: body}
		if err != nil {
			return a, err
		}
		if !engine.Missing(status) {
			t.paths[ask.Name] = i
			return a, nil
		}
		if i == len(ask.Older) {
			t.paths[ask.Name] = 0
			return a, nil
		}
	}
}

// get fetches a path of the engine. The error is errRefused if the connection is refused, and errLong, with the status,
// if the engine answers with more than is read.
func (t *target) get(ctx context.Context, path string) (status int, body []byte, err error) {
	asked := time.Now()
	ctx, cancel := context.WithTimeout(ctx, t.p.cfg.Timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, t.addr.url+path, nil)
	if err != nil {
		return 0, nil, fmt.Errorf("probe: %w", err)
	}
	req.Header.Set("User-Agent", "warmpath-probe")
	if t.addr.key != "" {
		req.Header.Set("Authorization", "Bearer "+t.addr.key)
	}
	resp, err := t.p.client.Do(req)
	if err != nil {
		return 0, nil, t.reason(err, path)
	}
	defer func() { _ = resp.Body.Close() }()
	if to := httpclient.Elsewhere(resp, t.addr.url); to != "" {
		return 0, nil, fmt.Errorf("GET %s: redirects to %s; write that address as the endpoint's URL", path, to)
	}
	body, err = io.ReadAll(io.LimitReader(resp.Body, engine.MaxAnswerBytes+1))
	if err != nil {
		return 0, nil, t.reason(err, path)
	}
	t.heard = asked
	if len(body) > engine.MaxAnswerBytes {
		return resp.StatusCode, nil, fmt.Errorf("GET %s: %w than %d bytes", path, errLong, engine.MaxAnswerBytes)
	}
	return resp.StatusCode, body, nil
}

// reason puts a transport's error into a line for people.
func (t *target) reason(err error, path string) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	switch {
	case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, fs.ErrNotExist): // no port, no Unix socket
		return errRefused
	case errors.Is(err, context.DeadlineExceeded):
		hint := ""
		if t.dialect == nil && strings.HasPrefix(t.addr.url, "https://") { // llama-server waits for more of a request
			hint = noTLS
		}
		return unansweredError{path, t.p.cfg.Timeout, hint}
	}
	if e, ok := errors.AsType[*net.DNSError](err); ok {
		if e.IsNotFound {
			return fmt.Errorf("no such host: %s%s", e.Name, multicast(e.Name))
		}
		return fmt.Errorf("%s cannot be looked up: %s", e.Name, e.Err)
	}
	hint := t.wrongScheme(err)
	if e, ok := errors.AsType[syscall.Errno](err); ok {
		err = e // without the addresses, which are known, and the port at this end, which says nothing
	}
	return fmt.Errorf("GET %s: %w%s", path, err, hint)
}

// multicast says why a name like mac.local is not found where other programs find it: on Linux they ask the machine's
// own service for names of the local network.
func multicast(name string) string {
	host, domain, _ := strings.Cut(strings.ToLower(strings.TrimSuffix(name, ".")), ".")
	if host == "" || domain != "local" {
		return ""
	}
	return "; names in .local are looked up by multicast (mDNS), which the router does not do: write the address"
}

const noTLS = "; for an engine without TLS write http:// in its URL"

// wrongScheme says which URL to give where the engine speaks HTTPS and its URL does not say so, or the other way round,
// and which settings the check of a certificate follows.
func (t *target) wrongScheme(err error) string {
	if _, ok := errors.AsType[*tls.CertificateVerificationError](err); ok {
		return "; engine_tls has the authority (ca) and the name (server_name) that are expected"
	}
	if strings.HasPrefix(t.addr.url, "https://") {
		_, ok := errors.AsType[tls.RecordHeaderError](err)
		// net/http has no type for it
		if ok || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client") {
			return noTLS
		}
		return ""
	}
	if t.dialect == nil &&
		(errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) {
		return "; for an engine with TLS write https:// in its URL"
	}
	return ""
}
