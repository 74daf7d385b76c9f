package httpclient_test

import (
	"net/http"
	"testing"

	"github.com/warmpath/warmpath/internal/httpclient"
)

func TestElsewhere(t *testing.T) {
	for _, c := range []struct {
		status       int
		at, location string
		want         string
	}{
		{307, "http://a:8000", "https://a:8000/v1", "https://a:8000"},
		{301, "http://a:8000", "http://b/login", "http://b"},
		{308, "https://a", "//b/v1", "https://b"},
		{302, "http://a:8000", "http://A:8000/v1/", ""},
		{303, "http://a:8000/base", "/v1/chat/", ""},
		{307, "http://a:8000", "", ""},
		{304, "http://a:8000", "http://b", ""},
		{200, "http://a:8000", "http://b", ""},
		{307, "unix:///run/e.sock", "http://localhost/v1/", ""},
		{307, "http://a:8000", "http://%zz", ""},
	} {
		res := &http.Response{StatusCode: c.status, Header: http.Header{"Location": {c.location}}}
		if got := httpclient.Elsewhere(res, c.at); got != c.want {
			t.Errorf("%d at %s to %q: got %q, want %q", c.status, c.at, c.location, got, c.want)
		}
	}
}
