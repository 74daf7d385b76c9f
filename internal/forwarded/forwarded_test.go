package forwarded

import (
	"crypto/tls"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func mustParse(t testing.TB, header string, trusted ...string) *Proxies {
	t.Helper()
	p, err := Parse(trusted, header)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// request is one from a peer, with headers NAME VALUE ...
func request(peer string, header ...string) *http.Request {
	r := httptest.NewRequest("POST", "http://router.lan/v1/models", nil)
	r.RemoteAddr = peer
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// TestClient: the client is who the rightmost trusted proxies say it is, and nobody else is believed.
func TestClient(t *testing.T) {
	const proxy, client = "10.0.0.1:4711", "198.51.100.7"
	list, standard, real := "X-Forwarded-For", "Forwarded", "X-Real-Ip"
	for _, c := range []struct {
		name, header, peer string
		said               []string
		want               string
		through            bool
	}{
		{"no proxy", "", "198.51.100.7:9", []string{list, "1.2.3.4"}, "198.51.100.7:9", false},
		{"no header", "", proxy, nil, "10.0.0.1", true},
		{"one", "", proxy, []string{list, client}, client, true},
		{"made up before it", "", proxy, []string{list, "1.2.3.4, " + client}, client, true},
		{"made up in a line before it", "", proxy, []string{list, "1.2.3.4", list, client}, client, true},
		{"two proxies", "", proxy, []string{list, "1.2.3.4, " + client + " ,10.0.0.2,10.1.2.3"}, client, true},
		{"two proxies, two lines", "", proxy, []string{list, client, list, "10.0.0.2"}, client, true},
		{"a proxy asks itself", "", proxy, []string{list, "10.0.0.3, 10.0.0.2"}, "10.0.0.3", true},
		{"not an address", "", proxy, []string{list, client + ", unknown"}, "10.0.0.1", true},
		{"not an address, further left", "", proxy, []string{list, client + ", evil, 10.0.0.2"}, "10.0.0.2", true},
		{"empty", "", proxy, []string{list, ""}, "10.0.0.1", true},
		{"empty elements", "", proxy, []string{list, client + ", , 10.0.0.2,,"}, client, true},
		{"with a port", "", proxy, []string{list, client + ":80"}, client, true},
		{"IPv6", "", "[fd00::1]:80", []string{list, "2001:db8::7"}, "2001:db8::7", true},
		{"IPv6 in brackets", "", proxy, []string{list, "[2001:db8::7]"}, "2001:db8::7", true},
		{"IPv6 with a port", "", proxy, []string{list, "[2001:db8::7]:80"}, "2001:db8::7", true},
		{"half a bracket", "", proxy, []string{list, "[2001:db8::7"}, "10.0.0.1", true},
		{"mapped", "", "[::ffff:10.0.0.1]:80", []string{list, "::ffff:198.51.100.7"}, client, true},
		{"a mapped proxy in the list", "", proxy, []string{list, client + ", ::ffff:10.9.9.9"}, client, true},
		{"Unix socket", "", "@", []string{list, client}, client, true},
		{"Unix socket, nothing said", "", "", nil, "", true},
		{"another header is not read", "", proxy, []string{standard, "for=1.2.3.4", real, "1.2.3.4"}, "10.0.0.1", true},

		{"X-Real-IP", "X-Real-IP", proxy, []string{real, client, list, "1.2.3.4"}, client, true},
		{"X-Real-IP missing", "X-Real-IP", proxy, []string{list, "1.2.3.4"}, "10.0.0.1", true},

		{"RFC 7239", "forwarded", proxy, []string{
			standard, "for=" + client + ";proto=https;by=10.0.0.1", list, "1.2.3.4",
		}, client, true},
		{"RFC 7239, two proxies", "Forwarded", proxy, []string{
			standard, `For="1.2.3.4", for="198.51.100.7:80", for=10.0.0.2`,
		}, client, true},
		{"RFC 7239, IPv6", "Forwarded", proxy, []string{standard, `for="[2001:db8::7]:4711"`}, "2001:db8::7", true},
		{"RFC 7239, obfuscated", "Forwarded", proxy, []string{standard, "for=1.2.3.4, for=_hidden"}, "10.0.0.1", true},
		{"RFC 7239, no for", "Forwarded", proxy, []string{standard, "for=1.2.3.4, proto=https"}, "10.0.0.1", true},
		{"RFC 7239, open quote before", "Forwarded", proxy, []string{
			standard, `for="1.2.3.4, for=` + client,
		}, client, true},
		{"RFC 7239, open quote", "Forwarded", proxy, []string{standard, `for="1.2.3.4`}, "10.0.0.1", true},
		{"RFC 7239, escaped", "Forwarded", proxy, []string{standard, `for="1.2.3\.4"`}, "10.0.0.1", true},
		{"RFC 7239, twice", "Forwarded", proxy, []string{standard, "for=1.2.3.4;for=" + client}, "10.0.0.1", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := mustParse(t, c.header, "10.0.0.0/8", "fd00::1", "unix")
			r := request(c.peer, c.said...)
			o := p.Of(r)
			if o.Client != c.want || (o.Peer != "") != c.through {
				t.Errorf("%+v, want %q", o, c.want)
			}
			if a := o.Addr(); a.IsValid() != (c.want != "") {
				t.Errorf("address %v of %q", a, c.want)
			}
			if o := (*Proxies)(nil).Of(r); o.Client != c.peer || o.Peer != "" {
				t.Errorf("where nobody is trusted: %+v", o)
			}
		})
	}
	if o := mustParse(t, "", "10.0.0.0/8").Of(request("@", list, client)); o.Client != "@" || o.Peer != "" {
		t.Errorf("a Unix socket that is not trusted: %+v", o)
	}
}

// TestTell: engines are told who asks by those who may say so, and nothing that a client made up.
func TestTell(t *testing.T) {
	const proxy = "10.0.0.1:4711"
	for _, c := range []struct {
		name, header, peer string
		said               []string
		encrypted          bool
		want               map[string]string
	}{
		{"a client", "", "198.51.100.7:9", nil, true, map[string]string{
			"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "https", "X-Forwarded-Host": "router.lan",
		}},
		{
			"a client that makes things up", "Cf-Connecting-Ip", "[2001:db8::7%eth0]:9",
			[]string{
				"X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "https", "X-Forwarded-User", "root", "Forwarded",
				"for=1.2.3.4", "X-Real-IP", "1.2.3.4", "CF-Connecting-IP", "1.2.3.4", "X-Other", "stays",
			},
			false,
			map[string]string{
				"X-Forwarded-For": "2001:db8::7", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "router.lan",
				"X-Other": "stays",
			},
		},
		{
			"a Unix socket", "", "@",
			[]string{"X-Forwarded-For", "1.2.3.4"},
			false,
			map[string]string{"X-Forwarded-Proto": "http", "X-Forwarded-Host": "router.lan"},
		},
		{"a silent proxy", "", proxy, nil, false, map[string]string{
			"X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "router.lan",
		}},
		{
			"a proxy", "", proxy,
			[]string{
				"X-Forwarded-For", "1.2.3.4", "X-Forwarded-For", "198.51.100.7", "X-Forwarded-Proto", "https",
				"X-Forwarded-Host", "api.example", "X-Forwarded-Port", "443", "X-Real-IP", "1.2.3.4",
				"Forwarded", "for=1.2.3.4",
			},
			false,
			map[string]string{
				"X-Forwarded-For": "1.2.3.4, 198.51.100.7, 10.0.0.1", "X-Forwarded-Proto": "https",
				"X-Forwarded-Host": "api.example", "X-Forwarded-Port": "443", "X-Real-Ip": "198.51.100.7",
			},
		},
		{
			"a proxy that writes RFC 7239", "Forwarded", proxy,
			[]string{
				"X-Forwarded-For", "1.2.3.4", "X-Forwarded-Proto", "made up", "X-Forwarded-Host", "made up",
				"Forwarded", `for="[2001:db8::7]";proto=https;host=api.example`,
			},
			false,
			map[string]string{
				"X-Forwarded-For": "2001:db8::7, 10.0.0.1", "X-Forwarded-Proto": "https",
				"X-Forwarded-Host": "api.example",
				"Forwarded":        `for="[2001:db8::7]";proto=https;host=api.example, for=10.0.0.1`,
			},
		},
		{"a proxy that says nothing of RFC 7239", "Forwarded", proxy, nil, true, map[string]string{
			"Forwarded": "for=10.0.0.1", "X-Forwarded-For": "10.0.0.1", "X-Forwarded-Proto": "https",
			"X-Forwarded-Host": "router.lan",
		}},
		{
			"a proxy that writes X-Real-IP", "X-Real-IP", "[fd00::1]:1",
			[]string{"X-Real-IP", "198.51.100.7", "X-Forwarded-For", "1.2.3.4", "Forwarded", "for=1.2.3.4"},
			false,
			map[string]string{
				"X-Forwarded-For": "198.51.100.7, fd00::1", "X-Forwarded-Proto": "http",
				"X-Forwarded-Host": "router.lan", "X-Real-Ip": "198.51.100.7",
			},
		},
		{"a proxy on a Unix socket", "", "@", []string{"X-Forwarded-For", "198.51.100.7"}, false, map[string]string{
			"X-Forwarded-For": "198.51.100.7", "X-Forwarded-Proto": "http", "X-Forwarded-Host": "router.lan",
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			trusted := []string{"10.0.0.0/8", "fd00::1"}
			if c.name == "a proxy on a Unix socket" {
				trusted = append(trusted, Unix)
			}
			r := request(c.peer, c.said...)
			if c.encrypted {
				r.TLS = &tls.ConnectionState{}
			}
			o := mustParse(t, c.header, trusted...).Of(r)
			out := maps.Clone(r.Header)
			o.Tell(out, r)
			got := map[string]string{}
			for name, values := range out {
				got[name] = strings.Join(values, "|")
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, bad := range []string{"", "proxy.lan", "10.0.0.0/33", "UNIX", "10.0.0.1:80"} {
		if _, err := Parse([]string{"10.0.0.1", bad}, ""); err == nil ||
			!strings.Contains(err.Error(), "is not an IP address") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	if p, err := Parse(nil, ""); p != nil || err != nil {
		t.Errorf("nobody: %v, %v", p, err)
	}
}

// FuzzClient: whatever a client writes before what its proxy adds, the router knows the client's address.
func FuzzClient(f *testing.F) {
	for _, seed := range []string{
		"", "1.2.3.4", "10.0.0.1, 10.0.0.2", `for="`, `for="1.2.3.4;for=`, "for=[::1", ", ,", "10.0.0.1:99999999999",
		"unknown;;;=,", `for="[::1%25\"]"`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, said string) {
		for header, adds := range map[string]string{
			"X-Forwarded-For": "198.51.100.7", "Forwarded": "for=198.51.100.7;proto=http",
		} {
			p := mustParse(t, header, "10.0.0.0/8")
			for _, values := range [][]string{{said + ", " + adds}, {said, adds}} {
				r := request("10.0.0.1:1")
				r.Header[header] = values
				o := p.Of(r)
				if o.Client != "198.51.100.7" {
					t.Errorf("%s: %q: the client is %s", header, values, o.Client)
				}
			}
		}
	})
}

// BenchmarkOrigin is what each request pays, without proxies and with one.
func BenchmarkOrigin(b *testing.B) {
	for name, p := range map[string]*Proxies{"none": nil, "one": mustParse(b, "", "10.0.0.0/8")} {
		b.Run(name, func(b *testing.B) {
			r := request("10.0.0.1:4711", "Content-Type", "application/json", "User-Agent", "OpenAI/Python 2.1",
				"Accept", "*/*", "Authorization", "Bearer x")
			if p != nil {
				r.Header.Set("X-Forwarded-For", "198.51.100.7")
			}
			h := make(http.Header, 10)
			b.ReportAllocs()
			for b.Loop() {
				clear(h)
				maps.Copy(h, r.Header)
				o := p.Of(r)
				o.Tell(h, r)
			}
		})
	}
}
