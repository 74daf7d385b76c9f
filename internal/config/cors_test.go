package config

import (
	"strings"
	"testing"
)

func TestOrigins(t *testing.T) {
	for _, tt := range []struct {
		origins []string
		ok      bool
	}{
		{nil, true},
		{[]string{"none"}, true},
		{[]string{"https://app.example", "http://localhost:3000"}, true},
		{[]string{"http://[::1]:3000"}, true},
		{[]string{"none", "https://app.example"}, false},
		{[]string{"*"}, false},
		{[]string{"app.example"}, false},
		{[]string{"https://app.example/"}, false},
		{[]string{"https://App.example"}, false},
		{[]string{"https://u@app.example"}, false},
		{[]string{""}, false},
		{[]string{"null"}, false},
	} {
		c := Default()
		c.CORS.Origins = tt.origins
		if told := c.CORS.check(); (len(told) == 0) != tt.ok ||
			!tt.ok && !strings.Contains(told[0].Error(), "cors.origins") {
			t.Errorf("%q: %v", tt.origins, told)
		}
	}
}
