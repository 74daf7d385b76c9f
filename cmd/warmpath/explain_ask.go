package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/warmpath/warmpath/internal/config"
	"github.com/warmpath/warmpath/internal/httpclient"
	"github.com/warmpath/warmpath/internal/unixsocket"
)

const (
	tokenVariable = "WARMPATH_ADMIN_TOKEN"
	largestAnswer = 64 << 20 // of the admin listener, in bytes
)

// askAdmin gets JSON from the admin listener at an address.
func askAdmin(ctx context.Context, a *adminFlags, path string, query url.Values, into any) error {
	return callAdmin(ctx, http.MethodGet, a, path, query, 0, into)
}

// callAdmin calls the admin listener; wait is how long the operation itself may take.
func callAdmin(
	ctx context.Context, method string, a *adminFlags, path string, query url.Values, wait time.Duration, into any,
) error {
	admin := a.admin
	if !strings.Contains(admin, "://") {
		admin = "http://" + admin // host:port, as serve prints it
	}
	base, err := url.Parse(admin)
	socket := err == nil && base.Scheme == "unix" && base.Path != ""
	if err != nil || !socket && (base.Scheme != "http" && base.Scheme != "https" || base.Host == "") {
		return usageError(fmt.Errorf("--admin %q is not an address such as 127.0.0.1:9190, "+
			"https://router:9190 or unix:///run/admin.sock", admin))
	}
	root := *base
	if socket {
		root.Path += ":" // where paths begin
	}
	at := root.JoinPath(path) // keeps escaped names
	at.RawQuery = query.Encode()
	ctx, cancel := context.WithTimeout(ctx, wait+10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, at.String(), nil)
	if err != nil {
		return usageError(err)
	}
	if a.token != "" {
		req.Header.Set("Authorization", "Bearer "+a.token)
	}
	secure, err := config.ClientTLS(a.ca, a.cert, a.key)
	if err != nil {
		return usageError(fmt.Errorf("--ca, --cert, --key: %w", err))
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DialContext: unixsocket.Dial(&net.Dialer{}), TLSClientConfig: secure,
		MaxResponseHeaderBytes: httpclient.HeadBytes,
	}
	res, err := httpclient.New(transport).Do(unixsocket.Request(req))
	if err != nil {
		if inner := (*url.Error)(nil); errors.As(err, &inner) {
			err = inner.Err
		}
		return fmt.Errorf(
			"the admin listener at %s does not answer (%w): is the router running, and is --admin its admin address?",
			base.Redacted(), err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, largestAnswer))
	if err != nil {
		return fmt.Errorf("the answer of %s is incomplete: %w", base.Redacted(), err)
	}
	if res.StatusCode != http.StatusOK && res.StatusCode != http.StatusAccepted {
		return refusedWhy(base, a.token != "", res.StatusCode, body)
	}
	if err := json.Unmarshal(body, into); err != nil {
		return fmt.Errorf("%s is not a warmpath admin listener: its answer is not the expected JSON", base.Redacted())
	}
	return nil
}

// refusedWhy explains an error of the admin listener, which got a token or none, and what to do about it.
func refusedWhy(base *url.URL, token bool, status int, body []byte) error {
	var b struct {
		Error struct{ Message, Code string }
	}
	// of the listener for clients
	if json.Unmarshal(body, &b) != nil || b.Error.Code == "" || b.Error.Code == "path_not_allowed" {
		return fmt.Errorf("%s answered %d and is not a warmpath admin listener; --admin needs the admin address, "+
			"not the address for clients", base.Redacted(), status)
	}
	switch b.Error.Code {
	case "bad_token":
		if token {
			return fmt.Errorf("%s refuses this admin token: it is that of admin.token or admin.token_file in the "+
				"router's configuration", base.Redacted())
		}
		return fmt.Errorf("%s requires the admin token: give --token or set %s", base.Redacted(), tokenVariable)
	case "shadow_off":
		return fmt.Errorf("the router at %s evaluates no shadow policy: give serve --shadow POLICY, "+
			"or set shadow in its configuration", base.Redacted())
	case "explain_off":
		return fmt.Errorf("the router at %s keeps no decisions: set explain.keep above 0 in its configuration",
			base.Redacted())
	case "unknown_endpoint":
		what, _, _ := strings.Cut(b.Error.Message, ";")
		return fmt.Errorf("%s: %s; warmpath endpoints lists them", base.Redacted(), what)
	case "foreign_host":
		return fmt.Errorf("%s: %s; use 127.0.0.1, or give the listener a token", base.Redacted(), b.Error.Message)
	}
	return fmt.Errorf("%s answered %d: %s", base.Redacted(), status, b.Error.Message)
}
